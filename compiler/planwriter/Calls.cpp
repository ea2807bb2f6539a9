#include "compiler/planwriter/Calls.h"

#include "compiler/planwriter/EntryLowering.h"
#include "dialects/nn/IR/Builders.h"

using namespace mlir;
using diffrun::Status;
namespace proto = diffrun::proto;

namespace diffc {
namespace {

template <typename List, typename Values> void fill(List *list, const Values &values) {
  list->Clear();
  for (int64_t value : values)
    list->Add(value);
}

/// Shape and strides of a matmul operand as [batch..., rows, columns], its
/// stored order exchanged by the strides.
void describeMatrix(Value value, bool transposed, size_t rank,
                    google::protobuf::RepeatedField<int64_t> *shapeOut,
                    google::protobuf::RepeatedField<int64_t> *stridesOut) {
  SmallVector<int64_t> shape(nn::tensorType(value).getShape());
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  if (transposed) {
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  }
  while (shape.size() < rank) {
    shape.insert(shape.begin(), 1);
    strides.insert(strides.begin(), shape.size() > 1 ? shape[1] * strides[0] : 1);
  }
  fill(shapeOut, shape);
  fill(stridesOut, strides);
}

void describeMatmul(nn::MatmulOp matmul, bool bias, proto::Matmul &out) {
  SmallVector<int64_t> c(nn::tensorType(matmul.getResult()).getShape());
  Value a = matmul.getLhs(), b = matmul.getRhs();
  // Leading dimensions of a that meet one plain matrix are rows of one product.
  bool flat = nn::tensorType(b).getRank() == 2 && c.size() > 2 && !matmul.getTransposeA();
  if (flat) {
    int64_t rows = nn::elementCount(ArrayRef(c).drop_back());
    int64_t k = nn::tensorType(a).getShape().back();
    fill(out.mutable_a_shape(), SmallVector<int64_t>{rows, k});
    fill(out.mutable_a_strides(), SmallVector<int64_t>{k, 1});
    describeMatrix(b, matmul.getTransposeB(), 2, out.mutable_b_shape(), out.mutable_b_strides());
    c = {rows, c.back()};
  } else {
    describeMatrix(a, matmul.getTransposeA(), c.size(), out.mutable_a_shape(),
                   out.mutable_a_strides());
    describeMatrix(b, matmul.getTransposeB(), c.size(), out.mutable_b_shape(),
                   out.mutable_b_strides());
  }
  fill(out.mutable_c_shape(), c);
  out.set_dtype(protoType(matmul.getType()).dtype());
  out.set_bias(bias);
}

template <typename Op>
void describeConvolution(Op op, proto::Convolution::Kind kind, ArrayRef<int64_t> x,
                         ArrayRef<int64_t> w, ArrayRef<int64_t> y, bool bias,
                         proto::Convolution &out) {
  out.set_kind(kind);
  fill(out.mutable_x_shape(), x);
  fill(out.mutable_w_shape(), w);
  fill(out.mutable_y_shape(), y);
  fill(out.mutable_strides(), op.getStrides());
  fill(out.mutable_pads_low(), op.getPadsLow());
  fill(out.mutable_pads_high(), op.getPadsHigh());
  fill(out.mutable_dilations(), op.getDilations());
  out.set_groups(op.getGroups());
  out.set_dtype(protoType(op.getType()).dtype());
  out.set_bias(bias);
}

} // namespace

Status describeCall(nn::CallOp call, proto::Op &op) {
  auto body = call.getBlock().without_terminator();
  Operation *main = &*body.begin();
  bool bias = std::next(body.begin()) != body.end();
  if (auto cost = dyn_cast<nn::CostOpInterface>(main))
    op.set_flops(cost.getFlops());
  auto shape = [](Value value) { return nn::tensorType(value).getShape(); };
  return TypeSwitch<Operation *, Status>(main)
      .Case<nn::MatmulOp>([&](auto matmul) {
        describeMatmul(matmul, bias, *op.mutable_matmul());
        return Status();
      })
      .Case<nn::ConvolutionOp>([&](auto conv) {
        describeConvolution(conv, proto::Convolution::FORWARD, shape(conv.getInput()),
                            shape(conv.getWeight()), shape(conv.getResult()), bias,
                            *op.mutable_convolution());
        return Status();
      })
      .Case<nn::ConvolutionInputGradOp>([&](auto conv) {
        describeConvolution(conv, proto::Convolution::INPUT_GRAD, shape(conv.getResult()),
                            shape(conv.getWeight()), shape(conv.getOutputGrad()), bias,
                            *op.mutable_convolution());
        return Status();
      })
      .Case<nn::ConvolutionWeightGradOp>([&](auto conv) {
        describeConvolution(conv, proto::Convolution::WEIGHT_GRAD, shape(conv.getInput()),
                            shape(conv.getResult()), shape(conv.getOutputGrad()), bias,
                            *op.mutable_convolution());
        return Status();
      })
      .Case<train::DrawOp>([&](auto draw) {
        proto::Draw &out = *op.mutable_draw();
        out.set_distribution(draw.getDistribution() == "uniform" ? proto::Draw::UNIFORM
                                                                 : proto::Draw::NORMAL);
        out.set_stream(static_cast<uint32_t>(draw.getUse()));
        ArrayRef<int64_t> drawn = shape(draw.getResult());
        out.set_samples(drawn.front());
        out.set_elements(nn::elementCount(drawn.drop_front()));
        return Status();
      })
      .Default([&](Operation *other) {
        return Status::internal("no library call computes " +
                                other->getName().getStringRef().str());
      });
}

} // namespace diffc
