// The plan file's message -> plan IR.
#include "compiler/planwriter/Translation.h"
#include "runtime/core/Checksum.h"

#include <llvm/ADT/MapVector.h>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;
namespace proto = diffrun::proto;

namespace diffc {
namespace {

using Own = SmallVector<NamedAttribute>;

class PlanReader {
public:
  PlanReader(const proto::Plan &in, MLIRContext &context)
      : in(in), builder(&context), loc(UnknownLoc::get(&context)) {
    context.loadDialect<plan::PlanDialect>();
  }

  Result<PlanParts> run() {
    PlanParts parts;
    parts.module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(parts.module->getBody());
    auto program = builder.create<plan::ProgramOp>(loc, in.name(), in.version(), in.compiler());
    builder.setInsertionPointToEnd(&program.getBody().emplaceBlock());
    if (in.has_target())
      readTarget();
    for (const proto::Space &space : in.spaces())
      readSpace(space, parts.blobs);
    for (const proto::Slot &slot : in.slots())
      builder.create<plan::SlotOp>(loc, slotName(slot), bufferOf(slot.buffer()),
                                   typeOf(slot.type()), slot.trainable());
    if (!in.code().empty())
      builder.create<plan::CodeOp>(loc, in.code().size(), checksumOf(in.code()));
    parts.blobs.code = in.code();
    makeKernels();
    for (const proto::Entry &entry : in.entries()) {
      DIFFRUN_RETURN_IF_ERROR(readEntry(entry).withContext("entry " + entry.name()));
      parts.blobs.programs[entry.name()] = entry.program();
    }
    readExplanations();
    DIFFRUN_RETURN_IF_ERROR(verifyPlan(*parts.module, diffrun::ErrorCode::kInvalidInput));
    return std::move(parts);
  }

private:
  NamedAttribute named(StringRef name, Attribute value) {
    return builder.getNamedAttr(name, value);
  }
  NamedAttribute number(StringRef name, int64_t value) {
    return named(name, builder.getI64IntegerAttr(value));
  }
  template <typename List> NamedAttribute numbers(StringRef name, const List &values) {
    return named(name,
                 builder.getDenseI64ArrayAttr(SmallVector<int64_t>(values.begin(), values.end())));
  }
  static int64_t checksumOf(const std::string &bytes) {
    return diffrun::crc32c(bytes.data(), bytes.size());
  }

  Type elementType(proto::DType dtype) {
    switch (dtype) {
    case proto::F64:
      return builder.getF64Type();
    case proto::F16:
      return builder.getF16Type();
    case proto::BF16:
      return builder.getBF16Type();
    case proto::I64:
      return builder.getI64Type();
    case proto::I32:
      return builder.getI32Type();
    case proto::BOOL:
      return builder.getI1Type();
    default:
      return builder.getF32Type();
    }
  }
  RankedTensorType typeOf(const proto::TensorType &type) {
    return tensorOf(type.shape(), type.dtype());
  }
  template <typename Shape> RankedTensorType tensorOf(const Shape &shape, proto::DType dtype) {
    return RankedTensorType::get(SmallVector<int64_t>(shape.begin(), shape.end()),
                                 elementType(dtype));
  }

  plan::BufferAttr bufferOf(const proto::Buffer &buffer) {
    const std::string &space = in.spaces(static_cast<int>(buffer.space())).name();
    return plan::BufferAttr::get(builder.getContext(),
                                 FlatSymbolRefAttr::get(builder.getContext(), space),
                                 buffer.offset(), buffer.bytes());
  }
  plan::SlotNameAttr slotName(const proto::Slot &slot) {
    return plan::SlotNameAttr::get(builder.getContext(), slot.model(), slot.parameter(),
                                   slot.role());
  }
  plan::SlotNameAttr slotName(const proto::SlotUse &use) {
    return slotName(in.slots(static_cast<int>(use.slot())));
  }

  void readTarget() {
    SmallVector<StringRef> features(in.target().features().begin(), in.target().features().end());
    builder.create<plan::TargetOp>(loc, in.target().level(), builder.getStrArrayAttr(features),
                                   in.target().team());
  }

  void readSpace(const proto::Space &space, PlanBlobs &blobs) {
    IntegerAttr data;
    if (!space.data().empty()) {
      data = builder.getI64IntegerAttr(checksumOf(space.data()));
      blobs.data[space.name()] = space.data();
    }
    builder.create<plan::SpaceOp>(loc, space.name(), static_cast<plan::Lifetime>(space.lifetime()),
                                  space.bytes(), data);
  }

  /// The launches' symbols, in the order of their first launch.
  void makeKernels() {
    llvm::MapVector<StringRef, const proto::Op *> kernels;
    for (const proto::Entry &entry : in.entries())
      for (const proto::Op &op : entry.ops())
        if (op.has_launch())
          kernels.insert({op.launch().symbol(), &op});
    for (auto &[symbol, op] : kernels)
      builder.create<plan::KernelOp>(loc, symbol, op->operands_size(), op->results_size());
  }

  Status readEntry(const proto::Entry &entry) {
    auto made = builder.create<plan::EntryOp>(loc, entry.name(), entry.model(), entry.batch(),
                                              entry.arena_bytes(), entry.program().values_size(),
                                              entry.program().nodes_size());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&made.getBody().emplaceBlock());
    for (int i = 0; i < entry.inputs_size(); ++i) {
      const proto::Input &input = entry.inputs(i);
      if (!input.scalar() && input.initial() != 0)
        return Status::invalid("input " + input.name() + " has a value but is no scalar");
      builder.create<plan::InputOp>(
          loc, builder.getStringAttr(input.name()),
          input.role().empty() ? StringAttr() : builder.getStringAttr(input.role()),
          input.scalar() ? builder.getF64FloatAttr(input.initial()) : FloatAttr(),
          builder.getI64IntegerAttr(entry.input_values(i)), bufferOf(input.buffer()),
          TypeAttr::get(typeOf(input.type())));
    }
    for (const proto::SlotUse &use : entry.reads())
      builder.create<plan::ReadOp>(loc, slotName(use), use.value());
    for (const proto::Op &op : entry.ops())
      DIFFRUN_RETURN_IF_ERROR(readStep(op));
    for (int i = 0; i < entry.outputs_size(); ++i)
      builder.create<plan::OutputOp>(loc, entry.outputs(i).name(), entry.output_values(i),
                                     bufferOf(entry.outputs(i).buffer()),
                                     typeOf(entry.outputs(i).type()));
    for (const proto::SlotUse &use : entry.commits())
      builder.create<plan::CommitOp>(loc, slotName(use), use.value());
    return {};
  }

  Status readStep(const proto::Op &op) {
    plan::StepParts parts;
    for (const proto::Buffer &buffer : op.operands())
      parts.inputs.push_back(bufferOf(buffer));
    for (const proto::Buffer &buffer : op.results())
      parts.outputs.push_back(bufferOf(buffer));
    for (const proto::Buffer &buffer : op.scratch())
      parts.scratch.push_back(bufferOf(buffer));
    parts.inputValues.append(op.operand_values().begin(), op.operand_values().end());
    parts.outputValues.append(op.result_values().begin(), op.result_values().end());
    parts.label = op.label();
    parts.location = op.location();
    parts.firstNode = op.first_node();
    parts.nodeCount = op.node_count();
    parts.bytesRead = op.bytes_read();
    parts.bytesWritten = op.bytes_written();
    parts.flops = op.flops();
    switch (op.kind_case()) {
    case proto::Op::kLaunch:
      plan::createStep<plan::LaunchOp>(
          builder, parts,
          {named("kernel", FlatSymbolRefAttr::get(builder.getContext(), op.launch().symbol())),
           number("chunks", op.launch().chunks())});
      return {};
    case proto::Op::kMatmul:
      plan::createStep<plan::MatmulOp>(builder, parts, ownOf(op.matmul()));
      return {};
    case proto::Op::kConvolution:
      plan::createStep<plan::ConvolutionOp>(builder, parts, ownOf(op.convolution()));
      return {};
    case proto::Op::kDraw:
      plan::createStep<plan::DrawOp>(builder, parts, ownOf(op.draw()));
      return {};
    case proto::Op::kCopy:
      plan::createStep<plan::CopyOp>(builder, parts);
      return {};
    case proto::Op::KIND_NOT_SET:
      break;
    }
    return Status::invalid("operation " + op.label() +
                           " is of a kind that this diffc does not have");
  }

  template <typename List>
  TypeAttr matrix(const List &shape, const List &strides, proto::DType dtype) {
    auto layout = StridedLayoutAttr::get(builder.getContext(), /*offset=*/0,
                                         SmallVector<int64_t>(strides.begin(), strides.end()));
    return TypeAttr::get(MemRefType::get(SmallVector<int64_t>(shape.begin(), shape.end()),
                                         elementType(dtype), layout));
  }

  Own ownOf(const proto::Matmul &matmul) {
    auto c = MemRefType::get(SmallVector<int64_t>(matmul.c_shape().begin(), matmul.c_shape().end()),
                             elementType(matmul.dtype()));
    Own own{named("a", matrix(matmul.a_shape(), matmul.a_strides(), matmul.dtype())),
            named("b", matrix(matmul.b_shape(), matmul.b_strides(), matmul.dtype())),
            named("c", TypeAttr::get(c))};
    if (matmul.bias())
      own.push_back(named("bias", builder.getUnitAttr()));
    return own;
  }

  Own ownOf(const proto::Convolution &conv) {
    auto kind = static_cast<plan::ConvolutionKind>(conv.kind());
    Own own{named("kind", plan::ConvolutionKindAttr::get(builder.getContext(), kind)),
            named("x", TypeAttr::get(tensorOf(conv.x_shape(), conv.dtype()))),
            named("w", TypeAttr::get(tensorOf(conv.w_shape(), conv.dtype()))),
            named("y", TypeAttr::get(tensorOf(conv.y_shape(), conv.dtype()))),
            numbers("strides", conv.strides()),
            numbers("pads_low", conv.pads_low()),
            numbers("pads_high", conv.pads_high()),
            numbers("dilations", conv.dilations()),
            number("groups", conv.groups())};
    if (conv.bias())
      own.push_back(named("bias", builder.getUnitAttr()));
    return own;
  }

  Own ownOf(const proto::Draw &draw) {
    auto distribution = static_cast<plan::Distribution>(draw.distribution());
    return {named("distribution", plan::DistributionAttr::get(builder.getContext(), distribution)),
            number("stream", draw.stream()), number("samples", draw.samples()),
            number("elements", draw.elements())};
  }

  void readExplanations() {
    if (in.has_objective()) {
      const proto::Objective &o = in.objective();
      builder.create<plan::ObjectiveOp>(loc, o.kind(), o.predict(), o.schedule(), o.steps(),
                                        llvm::APFloat(o.beta_start()), llvm::APFloat(o.beta_end()),
                                        o.null_label(), o.classes(), o.accumulate());
    }
    if (in.has_weights())
      builder.create<plan::WeightsOp>(loc, in.weights().file(), in.weights().bytes(),
                                      in.weights().checksum());
    for (const proto::Remark &remark : in.remarks())
      builder.create<plan::RemarkOp>(loc, remark.kind(), remark.location(), remark.text());
    if (!in.recipe().empty())
      builder.create<plan::RecipeOp>(loc, in.recipe());
    if (!in.decisions().empty())
      builder.create<plan::DecisionsOp>(loc, in.decisions());
  }

  const proto::Plan &in;
  OpBuilder builder;
  Location loc;
};

} // namespace

Result<PlanParts> fromProto(const proto::Plan &plan, MLIRContext &context) {
  return PlanReader(plan, context).run();
}

} // namespace diffc
