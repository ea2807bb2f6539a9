// Import of reductions, of what is searched by them, and of losses.
#include "compiler/import/Axes.h"
#include "compiler/import/Terms.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

//===--- Reductions ----------------------------------------------------------===//

/// What a Reduce* node says: the axes, and whether they stay as 1. `noop`: the
/// node names no axes and then reduces nothing.
struct Reduction {
  SmallVector<int64_t> axes;
  bool keep = true, noop = false;
};

Result<Reduction> reductionOf(NodeImport &in, int64_t axesOperandSince) {
  int64_t rank = in.type(0).getRank();
  Reduction r;
  r.keep = in.integer("keepdims", 1);
  DIFFRUN_ASSIGN(auto axes, axesOf(in, rank, axesOperandSince));
  if (axes && !axes->empty())
    r.axes = *axes;
  else if (in.integer("noop_with_empty_axes", 0))
    r.noop = true;
  else
    r.axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  return r;
}

template <typename Op> Value over(const Terms &t, Value x, const Reduction &r) {
  if (r.axes.empty())
    return x;
  return t.make<Op>(x, r.axes, r.keep);
}

/// Sum, mean: of what `before` makes of the input.
template <typename Op, int64_t kSince> Outcome plain(NodeImport &in) {
  DIFFRUN_ASSIGN(Reduction r, reductionOf(in, kSince));
  if (r.noop || r.axes.empty())
    return NodeImport::Values{in.operand(0)};
  Terms t(in, 0);
  if (!t.isReal() && std::is_same_v<Op, ReduceMeanOp>) {
    Terms real(in, in.builder.getF64Type());
    return NodeImport::Values{
        t.cast(over<Op>(real, t.cast(in.operand(0), real.element), r), t.element)};
  }
  return in.build<Op>(in.operand(0), r.axes, r.keep);
}

/// The largest or smallest; of booleans, as numbers 0 and 1.
template <typename Op> Outcome extreme(NodeImport &in) {
  DIFFRUN_ASSIGN(Reduction r, reductionOf(in, 18));
  Terms t(in, 0);
  if (r.noop || r.axes.empty())
    return NodeImport::Values{in.operand(0)};
  if (!t.element.isInteger(1))
    return in.build<Op>(in.operand(0), r.axes, r.keep);
  Value number = t.cast(in.operand(0), in.builder.getI32Type());
  Value found = t.make<Op>(number, r.axes, r.keep);
  // Of nothing, the largest is false and the smallest true.
  Terms i(in, in.builder.getI32Type());
  return NodeImport::Values{i.greater(found, i.c(0))};
}

/// A reduction that is a sum between two element-wise functions. Integers are
/// reduced as such where the functions stay among them, else in double
/// precision, cut off in the end. With no axes named and
/// noop_with_empty_axes, only the element-wise part is done.
template <typename Before, typename After>
Outcome aroundSum(NodeImport &in, bool staysInteger, Before before, After after) {
  DIFFRUN_ASSIGN(Reduction r, reductionOf(in, 18));
  Type own = in.type(0).getElementType();
  Terms t(in, isa<FloatType>(own) || staysInteger ? own : in.builder.getF64Type());
  Value x = before(t, t.cast(in.operand(0), t.element));
  return NodeImport::Values{t.cast(after(t, over<ReduceSumOp>(t, x, r)), own)};
}

Value itself(const Terms &, Value x) { return x; }
Value squareOf(const Terms &t, Value x) { return t.mul(x, x); }
Value absOf(const Terms &t, Value x) { return t.make<AbsOp>(x); }
Value logOf(const Terms &t, Value x) { return t.make<LogOp>(x); }
/// The square root, with derivative 1 instead of infinity at 0, so that a norm's
/// is 0 there.
Value rootOf(const Terms &t, Value x) {
  Value positive = t.greater(x, t.c(0));
  return t.select(positive, t.make<SqrtOp>(t.select(positive, x, t.c(1))), x);
}

Outcome reduceL1(NodeImport &in) { return aroundSum(in, true, absOf, itself); }
Outcome reduceL2(NodeImport &in) { return aroundSum(in, false, squareOf, rootOf); }
Outcome reduceSumSquare(NodeImport &in) { return aroundSum(in, true, squareOf, itself); }
Outcome reduceLogSum(NodeImport &in) { return aroundSum(in, false, itself, logOf); }

/// log(sum(e^(x - m))) + m with m the largest x, or 0 where that is infinite.
Outcome reduceLogSumExp(NodeImport &in) {
  DIFFRUN_ASSIGN(Reduction r, reductionOf(in, 18));
  Type own = in.type(0).getElementType();
  Terms t(in, isa<FloatType>(own) ? own : in.builder.getF64Type());
  Value x = t.cast(in.operand(0), t.element);
  if (r.axes.empty())
    return NodeImport::Values{in.operand(0)};
  Reduction kept = r;
  kept.keep = true;
  Value top = over<ReduceMaxOp>(t, x, kept);
  Value finite = t.less(t.make<AbsOp>(top), t.c(std::numeric_limits<double>::infinity()));
  Value m = t.select(finite, top, t.c(0));
  Value sum = over<ReduceSumOp>(t, t.make<ExpOp>(t.sub(x, m)), r);
  Value back = nn::reshape(in.builder, m, tensorType(sum).getShape());
  return NodeImport::Values{t.cast(t.add(t.make<LogOp>(sum), back), own)};
}

/// Products of halves: the derivative is right where elements are 0, and lanes
/// of one dimension are multiplied in a fixed tree.
Outcome reduceProd(NodeImport &in) {
  DIFFRUN_ASSIGN(Reduction r, reductionOf(in, 18));
  Terms t(in, 0);
  Value x = in.operand(0);
  for (int64_t axis : r.axes)
    x = productAlong(t, x, axis);
  if (r.keep)
    return NodeImport::Values{x};
  SmallVector<int64_t> shape;
  for (auto [i, extent] : llvm::enumerate(tensorType(x).getShape()))
    if (!llvm::is_contained(r.axes, static_cast<int64_t>(i)))
      shape.push_back(extent);
  return NodeImport::Values{nn::reshape(in.builder, x, shape)};
}

//===--- Places --------------------------------------------------------------===//

template <typename Op> Outcome argExtreme(NodeImport &in) {
  auto axis = NodeImport::wrapAxis(in.integer("axis", 0), in.type(0).getRank());
  if (!axis)
    return in.fail("axis is out of range");
  if (in.type(0).getDimSize(*axis) == 0)
    return in.fail("dimension " + std::to_string(*axis) + " is empty");
  bool last = in.integer("select_last_index", 0);
  return NodeImport::Values{
      placeOfExtreme<Op>(Terms(in, 0), in.operand(0), *axis, in.integer("keepdims", 1), last)};
}

/// 1 at the first largest element of each line, 0 elsewhere. Before opset 13 a
/// line is all dimensions from the axis (default 1) on.
Outcome hardmax(NodeImport &in) {
  Terms t(in, 0);
  int64_t rank = in.type(0).getRank();
  auto axis = NodeImport::wrapAxis(in.integer("axis", in.opset < 13 ? 1 : -1), rank);
  if (!axis)
    return in.fail("axis is out of range");
  ArrayRef<int64_t> own = in.type(0).getShape();
  Value x = in.operand(0);
  if (in.type(0).getNumElements() == 0)
    return NodeImport::Values{x};
  if (in.opset < 13) {
    x = nn::reshape(in.builder, x,
                    {elementCount(own.take_front(*axis)), elementCount(own.drop_front(*axis))});
    axis = 1;
  }
  Value place = placeOfExtreme<ReduceMaxOp>(t, x, *axis, /*keep=*/true, /*last=*/false);
  Value hit = t.equal(iota(t, tensorType(x).getShape(), *axis), place);
  return NodeImport::Values{nn::reshape(in.builder, t.cast(hit, t.element), own)};
}

//===--- Normalising ---------------------------------------------------------===//

/// x / norm; where the norm is 0, 0.
Outcome lpNormalization(NodeImport &in) {
  Terms t(in, 0);
  auto axis = NodeImport::wrapAxis(in.integer("axis", -1), in.type(0).getRank());
  int64_t p = in.integer("p", 2);
  if (!axis || (p != 1 && p != 2))
    return in.fail(axis ? "p is neither 1 nor 2" : "axis is out of range");
  Value x = in.operand(0);
  Value sum =
      t.make<ReduceSumOp>(p == 1 ? absOf(t, x) : squareOf(t, x), ArrayRef<int64_t>{*axis}, true);
  Value norm = p == 1 ? sum : rootOf(t, sum);
  Value safe = t.select(t.equal(norm, t.c(0)), t.c(1), norm);
  return NodeImport::Values{t.div(x, safe)};
}

//===--- Running sums and products -------------------------------------------===//

/// Each element becomes the sum (product) of all up to it: log2(n) steps, each
/// adding what stands 1, 2, 4, ... places before. Before the first stands the
/// neutral element.
template <typename Op, int kNeutral> Outcome cumulative(NodeImport &in) {
  auto given = in.constantIntegers(1);
  if (!given || given->size() != 1)
    return in.fail("the axis must be one number that is known when the model is compiled");
  auto axis = NodeImport::wrapAxis((*given)[0], in.type(0).getRank());
  if (!axis)
    return in.fail("axis " + std::to_string((*given)[0]) + " is out of range");
  Terms t(in, 0);
  Value x = in.operand(0);
  int64_t rank = in.type(0).getRank(), extent = in.type(0).getDimSize(*axis);
  bool backwards = in.integer("reverse", 0);
  auto shifted = [&](Value v, int64_t places) -> Value {
    SmallVector<int64_t> low(rank, 0), high(rank, 0), none(rank, 0);
    low[*axis] = backwards ? -places : places;
    high[*axis] = -low[*axis];
    return t.make<PadOp>(v, low, high, none, APFloat(static_cast<double>(kNeutral)));
  };
  if (in.integer("exclusive", 0) && extent > 0)
    x = shifted(x, 1);
  for (int64_t step = 1; step < extent; step *= 2)
    x = t.make<Op>(x, shifted(x, step));
  return NodeImport::Values{x};
}

//===--- Losses --------------------------------------------------------------===//

/// -w[target] * logProbability[target] per element or reduced. Elements whose
/// target is ignore_index count nothing, in the mean's divisor neither.
Outcome negativeLogLikelihood(NodeImport &in, Value logProbability) {
  Terms t(in, 0);
  OpBuilder &b = in.builder;
  RankedTensorType type = in.type(0), targets = in.type(1);
  std::string reduction = in.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return in.fail("reduction \"" + reduction + "\" is none of none, sum and mean");
  SmallVector<int64_t> expected(type.getShape());
  if (type.getRank() < 2)
    return in.fail("needs [batch, classes, ...]");
  int64_t classes = expected[1];
  expected.erase(expected.begin() + 1);
  if (targets.getShape() != ArrayRef<int64_t>(expected))
    return in.fail("the targets' shape is not the input's without its classes");
  if (in.operand(2) && in.type(2).getShape() != ArrayRef<int64_t>{classes})
    return in.fail("needs one weight per class");
  Type i64 = b.getI64Type();
  Terms n(in, i64);
  Value target = t.cast(in.operand(1), i64);
  SmallVector<int64_t> column(expected);
  column.insert(column.begin() + 1, 1);
  Value counts; // per target: whether it counts
  if (in.has("ignore_index")) {
    counts = t.make<NotEqualOp>(target, n.c(static_cast<double>(in.integer("ignore_index", 0))));
    target = n.select(counts, target, n.c(0));
  }
  Value hit = t.equal(iota(t, type.getShape(), 1), nn::reshape(b, target, column));
  Value zero = t.c(0);
  // Not a product with 0: a log-probability may be -infinity.
  Value picked =
      t.make<ReduceSumOp>(t.select(hit, logProbability, zero), ArrayRef<int64_t>{1}, false);
  Value weight = broadcastTo(b, t.c(1), expected);
  if (in.operand(2))
    weight = t.make<GatherOp>(in.operand(2), target, 0);
  if (counts)
    weight = t.select(counts, weight, zero);
  Value loss = t.neg(t.mul(weight, picked));
  if (counts)
    loss = t.select(counts, loss, zero);
  if (reduction == "none")
    return NodeImport::Values{loss};
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, expected.size()));
  Value sum = t.make<ReduceSumOp>(loss, all, false);
  if (reduction == "mean")
    sum = t.div(sum, t.make<ReduceSumOp>(weight, all, false));
  return NodeImport::Values{sum};
}

Outcome negativeLogLikelihoodLoss(NodeImport &in) {
  return negativeLogLikelihood(in, in.operand(0));
}

/// Its second output is the logarithm of softmax over dimension 1.
Outcome softmaxCrossEntropyLoss(NodeImport &in) {
  if (in.type(0).getRank() < 2)
    return in.fail("needs [batch, classes, ...]");
  DIFFRUN_ASSIGN(auto logs, in.build<LogSoftmaxOp>(in.operand(0), 1));
  DIFFRUN_ASSIGN(auto loss, negativeLogLikelihood(in, logs[0]));
  return NodeImport::Values{loss[0], logs[0]};
}

} // namespace

void addReductionHandlers(HandlerTable &t) {
  t["ReduceSum"] = {plain<ReduceSumOp, 13>};
  t["ReduceMean"] = {plain<ReduceMeanOp, 18>};
  t["ReduceMax"] = {extreme<ReduceMaxOp>};
  t["ReduceMin"] = {extreme<ReduceMinOp>};
  t["ReduceL1"] = {reduceL1};
  t["ReduceL2"] = {reduceL2};
  t["ReduceSumSquare"] = {reduceSumSquare};
  t["ReduceLogSum"] = {reduceLogSum};
  t["ReduceLogSumExp"] = {reduceLogSumExp};
  t["ReduceProd"] = {reduceProd};
  t["ArgMax"] = {argExtreme<ReduceMaxOp>};
  t["ArgMin"] = {argExtreme<ReduceMinOp>};
  t["Hardmax"] = {hardmax};
  t["LpNormalization"] = {lpNormalization};
  t["CumSum"] = {cumulative<AddOp, 0>, 11, 2};
  t["CumProd"] = {cumulative<MulOp, 1>, 26, 2};
  t["NegativeLogLikelihoodLoss"] = {negativeLogLikelihoodLoss, 12, 2};
  t["SoftmaxCrossEntropyLoss"] = {softmaxCrossEntropyLoss, 12, 2};
}

} // namespace diffc
