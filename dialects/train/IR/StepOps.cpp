// The operators of a training step: state, draws, norm, update.
#include "dialects/nn/IR/Builders.h"
#include "dialects/train/IR/TrainDialect.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace diffc::train {

LogicalResult EntryOp::verify() {
  std::set<int64_t> uses;
  for (unsigned i = 0; i < getNumArguments(); ++i)
    if (!getArgAttrOfType<StringAttr>(i, kRoleAttr) &&
        !getArgAttrOfType<StringAttr>(i, kScalarAttr))
      return emitOpError("argument ") << i << " has neither a role nor a scalar's name";
  auto walked = walk([&](DrawOp draw) -> WalkResult {
    if (!uses.insert(draw.getUse()).second)
      return draw.emitOpError("repeats use ") << draw.getUse() << " of another draw";
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

LogicalResult CommitOp::verify() {
  if (getStates().size() != getSlots().size())
    return emitOpError("has ") << getStates().size() << " values for " << getSlots().size()
                               << " slots";
  if (getOutputs().size() != getNames().size())
    return emitOpError("has ") << getOutputs().size() << " outputs for " << getNames().size()
                               << " names";
  llvm::SmallDenseSet<Attribute> seen;
  for (Attribute slot : getSlots())
    if (!seen.insert(slot).second)
      return emitOpError("commits ") << slot << " twice";
  return success();
}

LogicalResult DrawOp::verify() {
  if (getDistribution() != "normal" && getDistribution() != "uniform")
    return emitOpError("distribution must be \"normal\" or \"uniform\"");
  // Wider, it would lose bits on its way into the counter and repeat another's.
  if (!llvm::isUInt<32>(static_cast<uint64_t>(getUse())))
    return emitOpError("use ") << static_cast<int64_t>(getUse())
                               << " does not fit the counter's 32 bits";
  RankedTensorType type = nn::tensorType(getResult());
  if (!type.getElementType().isF32() || type.getRank() < 1)
    return emitOpError("draws f32 tensors [samples, ...], not ") << type;
  for (Value scalar : getOperands())
    if (nn::tensorType(scalar) != RankedTensorType::get({}, Builder(getContext()).getI64Type()))
      return emitOpError("seed, iteration and first sample must be tensor<i64>");
  return success();
}

SmallVector<Value> GlobalNormOp::decompose(OpBuilder &builder) {
  Value total;
  for (Value gradient : getGradients()) {
    Value flat = nn::reshape(builder, gradient, {nn::tensorType(gradient).getNumElements()});
    Value square = builder.create<nn::MulOp>(getLoc(), flat, flat);
    Value sum = builder.create<nn::ReduceSumOp>(getLoc(), square, ArrayRef<int64_t>{0}, false);
    total = total ? builder.create<nn::AddOp>(getLoc(), total, sum) : sum;
  }
  return {builder.create<nn::SqrtOp>(getLoc(), total)};
}

SmallVector<Value> UpdateOp::decompose(OpBuilder &builder) {
  Location loc = getLoc();
  Type element = nn::tensorType(getWeight()).getElementType();
  auto c = [&](double value) { return nn::scalar(builder, loc, value, element); };
  auto add = [&](Value x, Value y) -> Value { return builder.create<nn::AddOp>(loc, x, y); };
  auto sub = [&](Value x, Value y) -> Value { return builder.create<nn::SubOp>(loc, x, y); };
  auto mul = [&](Value x, Value y) -> Value { return builder.create<nn::MulOp>(loc, x, y); };
  auto div = [&](Value x, Value y) -> Value { return builder.create<nn::DivOp>(loc, x, y); };
  double b1 = getBeta1().convertToDouble(), b2 = getBeta2().convertToDouble();
  double decay = getWeightDecay().convertToDouble();

  // 1 - beta^t = -expm1(t ln beta): exact in f32 also where beta^t is near 1.
  Value t = builder.create<nn::CastOp>(loc, getStep(), element);
  auto correction = [&](double beta) -> Value {
    Value power = builder.create<nn::Expm1Op>(loc, mul(t, c(std::log(beta))));
    return builder.create<nn::NegOp>(loc, power);
  };
  Value rate = div(getLr(), correction(b1));
  Value inverse = builder.create<nn::RsqrtOp>(loc, correction(b2));

  Value g = mul(getGradient(), getScale());
  Value m = add(mul(getM(), c(b1)), mul(g, c(1 - b1)));
  Value v = add(mul(getV(), c(b2)), mul(mul(g, g), c(1 - b2)));
  Value w = getWeight();
  if (decay != 0)
    w = sub(w, mul(w, mul(getLr(), c(decay))));
  Value root = mul(builder.create<nn::SqrtOp>(loc, v), inverse);
  w = sub(w, div(mul(m, rate), add(root, c(getEpsilon().convertToDouble()))));
  auto keep = [&](Value fresh, Value old) -> Value {
    return builder.create<nn::SelectOp>(loc, getOk(), fresh, old);
  };
  return {keep(w, getWeight()), keep(m, getM()), keep(v, getV())};
}

} // namespace diffc::train
