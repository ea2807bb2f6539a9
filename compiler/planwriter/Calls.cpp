#include "compiler/planwriter/Calls.h"

#include "dialects/nn/IR/Builders.h"
#include "dialects/train/IR/TrainDialect.h"

using namespace mlir;
using diffrun::Status;

namespace diffc {
namespace {

MemRefType matrix(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides, Type element) {
  return MemRefType::get(shape, element,
                         StridedLayoutAttr::get(element.getContext(), /*offset=*/0, strides));
}

/// An operand of a matmul as [batch..., rows, columns], its stored order
/// exchanged by the strides.
MemRefType matrixOf(Value value, bool transposed, size_t rank) {
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
  return matrix(shape, strides, nn::tensorType(value).getElementType());
}

class CallLowering {
public:
  CallLowering(const plan::StepParts &parts, bool bias, OpBuilder &builder)
      : parts(parts), bias(bias), builder(builder) {}

  void lower(nn::MatmulOp matmul) {
    SmallVector<int64_t> c(nn::tensorType(matmul.getResult()).getShape());
    Value lhs = matmul.getLhs(), rhs = matmul.getRhs();
    Type element = nn::tensorType(matmul.getResult()).getElementType();
    MemRefType a, b;
    // Leading dimensions of a that meet one plain matrix are rows of one product.
    bool flat = nn::tensorType(rhs).getRank() == 2 && c.size() > 2 && !matmul.getTransposeA();
    if (flat) {
      int64_t rows = nn::elementCount(ArrayRef(c).drop_back());
      int64_t k = nn::tensorType(lhs).getShape().back();
      a = matrix({rows, k}, {k, 1}, element);
      b = matrixOf(rhs, matmul.getTransposeB(), 2);
      c = {rows, c.back()};
    } else {
      a = matrixOf(lhs, matmul.getTransposeA(), c.size());
      b = matrixOf(rhs, matmul.getTransposeB(), c.size());
    }
    make<plan::MatmulOp>({{"a", TypeAttr::get(a)},
                          {"b", TypeAttr::get(b)},
                          {"c", TypeAttr::get(MemRefType::get(c, element))}});
  }

  template <typename Op> void lower(Op op, plan::ConvolutionKind kind, Value x, Value w, Value y) {
    MLIRContext *context = builder.getContext();
    make<plan::ConvolutionOp>({{"kind", plan::ConvolutionKindAttr::get(context, kind)},
                               {"x", TypeAttr::get(x.getType())},
                               {"w", TypeAttr::get(w.getType())},
                               {"y", TypeAttr::get(y.getType())},
                               {"strides", builder.getDenseI64ArrayAttr(op.getStrides())},
                               {"pads_low", builder.getDenseI64ArrayAttr(op.getPadsLow())},
                               {"pads_high", builder.getDenseI64ArrayAttr(op.getPadsHigh())},
                               {"dilations", builder.getDenseI64ArrayAttr(op.getDilations())},
                               {"groups", builder.getI64IntegerAttr(op.getGroups())}});
  }

  void lower(train::DrawOp draw) {
    ArrayRef<int64_t> drawn = nn::tensorType(draw.getResult()).getShape();
    auto distribution = draw.getDistribution() == "uniform" ? plan::Distribution::Uniform
                                                            : plan::Distribution::Normal;
    make<plan::DrawOp>(
        {{"distribution", plan::DistributionAttr::get(builder.getContext(), distribution)},
         {"stream", builder.getI64IntegerAttr(draw.getUse())},
         {"samples", builder.getI64IntegerAttr(drawn.front())},
         {"elements", builder.getI64IntegerAttr(nn::elementCount(drawn.drop_front()))}});
  }

private:
  template <typename StepOp> void make(ArrayRef<std::pair<StringRef, Attribute>> own) {
    SmallVector<NamedAttribute> attributes;
    for (auto &[name, value] : own)
      attributes.push_back(builder.getNamedAttr(name, value));
    if (bias)
      attributes.push_back(builder.getNamedAttr("bias", builder.getUnitAttr()));
    plan::createStep<StepOp>(builder, parts, attributes);
  }

  const plan::StepParts &parts;
  bool bias;
  OpBuilder &builder;
};

} // namespace

Status lowerCall(nn::CallOp call, plan::StepParts parts, OpBuilder &builder) {
  auto body = call.getBlock().without_terminator();
  Operation *main = &*body.begin();
  bool bias = std::next(body.begin()) != body.end();
  if (auto cost = dyn_cast<nn::CostOpInterface>(main))
    parts.flops = cost.getFlops();
  CallLowering lowering(parts, bias, builder);
  return TypeSwitch<Operation *, Status>(main)
      .Case<nn::MatmulOp, train::DrawOp>([&](auto op) {
        lowering.lower(op);
        return Status();
      })
      .Case<nn::ConvolutionOp>([&](auto conv) {
        lowering.lower(conv, plan::ConvolutionKind::Forward, conv.getInput(), conv.getWeight(),
                       conv.getResult());
        return Status();
      })
      .Case<nn::ConvolutionInputGradOp>([&](auto conv) {
        lowering.lower(conv, plan::ConvolutionKind::InputGrad, conv.getResult(), conv.getWeight(),
                       conv.getOutputGrad());
        return Status();
      })
      .Case<nn::ConvolutionWeightGradOp>([&](auto conv) {
        lowering.lower(conv, plan::ConvolutionKind::WeightGrad, conv.getInput(), conv.getResult(),
                       conv.getOutputGrad());
        return Status();
      })
      .Default([&](Operation *other) {
        return Status::internal("no library call computes " +
                                other->getName().getStringRef().str());
      });
}

} // namespace diffc
