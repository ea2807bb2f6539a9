// Tensors of an ONNX file as MLIR attributes, and the Constant operator.
#include "compiler/import/Importer.h"
#include "compiler/import/NodeImport.h"

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {

Type elementType(MLIRContext &context, int32_t dataType) {
  Builder b(&context);
  switch (dataType) {
  case onnx::TensorProto::DOUBLE:
    return b.getF64Type();
  case onnx::TensorProto::FLOAT:
    return b.getF32Type();
  case onnx::TensorProto::FLOAT16:
    return b.getF16Type();
  case onnx::TensorProto::BFLOAT16:
    return b.getBF16Type();
  case onnx::TensorProto::INT64:
    return b.getI64Type();
  case onnx::TensorProto::INT32:
    return b.getI32Type();
  case onnx::TensorProto::BOOL:
    return b.getI1Type();
  default:
    return {};
  }
}

Result<DenseElementsAttr> tensorElements(MLIRContext &context, const ModelFile &file,
                                         const onnx::TensorProto &tensor) {
  DIFFRUN_ASSIGN(std::string bytes, file.bytes(tensor));
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  auto type = RankedTensorType::get(shape, elementType(context, tensor.data_type()));
  if (type.getElementType().isInteger(1)) { // MLIR packs bits, ONNX has bytes
    SmallVector<bool> flags;
    for (char byte : bytes)
      flags.push_back(byte != 0);
    return DenseElementsAttr::get(type, ArrayRef<bool>(flags));
  }
  return DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(bytes.data(), bytes.size()));
}

namespace {

NodeImport::Outcome constant(NodeImport &in) {
  auto make = [&](DenseElementsAttr value) {
    return NodeImport::Values{in.builder.create<nn::ConstantOp>(in.loc, value)};
  };
  auto tensorOf = [&](Type element, int64_t count, bool isScalar) {
    return RankedTensorType::get(isScalar ? SmallVector<int64_t>() : SmallVector<int64_t>{count},
                                 element);
  };
  Type i64 = in.builder.getI64Type(), f32 = in.builder.getF32Type();
  if (const auto *value = in.find("value")) {
    DIFFRUN_ASSIGN(auto elements, tensorElements(*in.builder.getContext(), in.file, value->t()));
    return make(elements);
  }
  if (const auto *value = in.find("value_int"))
    return make(DenseElementsAttr::get(tensorOf(i64, 1, true), ArrayRef<int64_t>{value->i()}));
  if (const auto *value = in.find("value_float"))
    return make(DenseElementsAttr::get(tensorOf(f32, 1, true), ArrayRef<float>{value->f()}));
  if (in.has("value_ints")) {
    SmallVector<int64_t> values = in.integers("value_ints");
    return make(
        DenseElementsAttr::get(tensorOf(i64, values.size(), false), ArrayRef<int64_t>(values)));
  }
  if (const auto *value = in.find("value_floats")) {
    SmallVector<float> values(value->floats().begin(), value->floats().end());
    return make(
        DenseElementsAttr::get(tensorOf(f32, values.size(), false), ArrayRef<float>(values)));
  }
  return in.fail("holds neither a tensor nor numbers");
}

} // namespace

void addConstantHandlers(HandlerTable &table) { table["Constant"] = {constant, 1, 0}; }

} // namespace diffc
