#include "passes/autodiff/Gradient.h"

#include "dialects/nn/IR/Builders.h"

using namespace mlir;

namespace diffc {
namespace {

bool isFloatTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

/// Operations of `block` up to the one that makes `scalar`, on a path to it.
SmallVector<Operation *> operationsBefore(Value scalar) {
  DenseSet<Operation *> reached;
  SmallVector<Operation *> stack;
  auto reach = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && reached.insert(op).second)
      stack.push_back(op);
  };
  reach(scalar);
  while (!stack.empty())
    for (Value operand : stack.pop_back_val()->getOperands())
      reach(operand);
  SmallVector<Operation *> ordered(reached.begin(), reached.end());
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Gradients gathered so far, by value.
class Accumulator {
public:
  explicit Accumulator(OpBuilder &builder) : builder(builder) {}

  void add(Value value, Value gradient) {
    Value &sum = sums[value];
    sum = sum ? builder.create<nn::AddOp>(gradient.getLoc(), sum, gradient) : gradient;
  }
  Value find(Value value) const { return sums.lookup(value); }

private:
  OpBuilder &builder;
  DenseMap<Value, Value> sums;
};

LogicalResult differentiate(Operation *op, OpBuilder &builder, const DenseSet<Value> &active,
                            Accumulator &gradients) {
  SmallVector<Value> resultGrads, operandGrads;
  bool any = false;
  for (Value result : op->getResults()) {
    resultGrads.push_back(gradients.find(result));
    any |= !!resultGrads.back();
  }
  SmallVector<bool> needed;
  for (Value operand : op->getOperands())
    needed.push_back(active.contains(operand));
  if (!any || !llvm::is_contained(needed, true))
    return success();
  auto differentiable = dyn_cast<nn::DifferentiableOpInterface>(op);
  if (!differentiable)
    return op->emitError("has no derivative, but a trainable parameter reaches the "
                         "loss through it");
  if (failed(differentiable.buildGradient(builder, resultGrads, needed, operandGrads)))
    return failure();
  for (auto [operand, isNeeded, gradient] :
       llvm::zip_equal(op->getOperands(), needed, operandGrads))
    if (isNeeded && gradient)
      gradients.add(operand, gradient);
  return success();
}

} // namespace

FailureOr<SmallVector<Value>> buildGradients(OpBuilder &builder, Value scalar,
                                             ArrayRef<Value> inputs) {
  SmallVector<Operation *> ops = operationsBefore(scalar);
  // Active: depends on an input and is real-valued.
  DenseSet<Value> active(inputs.begin(), inputs.end());
  for (Operation *op : ops)
    if (llvm::any_of(op->getOperands(), [&](Value v) { return active.contains(v); }))
      for (Value result : op->getResults())
        if (isFloatTensor(result))
          active.insert(result);

  Accumulator gradients(builder);
  Type element = nn::tensorType(scalar).getElementType();
  gradients.add(scalar, nn::scalar(builder, scalar.getLoc(), 1.0, element));
  for (Operation *op : llvm::reverse(ops))
    if (failed(differentiate(op, builder, active, gradients)))
      return failure();

  SmallVector<Value> results;
  for (Value input : inputs)
    results.push_back(gradients.find(input));
  return results;
}

} // namespace diffc
