// Import of pooling: windows separate into one dimension after the other, each
// a fold over strided slices.
#include "compiler/import/Spatial.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

Result<Window> poolWindow(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  SmallVector<int64_t> kernel = in.integers("kernel_shape");
  if (rank < 3 || static_cast<int64_t>(kernel.size()) != rank - 2)
    return in.fail("kernel_shape has " + std::to_string(kernel.size()) +
                   " entries for an input of rank " + std::to_string(rank));
  return windowOf(in, kernel, in.type(0).getShape().drop_front(2), in.integer("ceil_mode", 0) != 0);
}

/// x with `value` wherever a window reaches outside, and cut where none does.
Value framed(NodeImport &in, Value x, const Window &w, double value) {
  SmallVector<int64_t> high;
  for (size_t i = 0; i < w.rank(); ++i) {
    int64_t needed = (w.outputs[i] - 1) * w.strides[i] + w.reach(i);
    int64_t there = tensorType(x).getDimSize(i + 2) + w.low[i];
    high.push_back(std::max(needed - there, std::min<int64_t>(w.high[i], 0)));
  }
  return surround(in, x, 2, w.low, high, value);
}

/// One element of every window: the j-th along spatial dimension i.
Value tap(NodeImport &in, Value x, const Window &w, size_t i, int64_t j) {
  return sliceOf(in, x, i + 2, j * w.dilations[i], w.outputs[i], w.strides[i]);
}

/// Op over every window. Dimensions go last to first, so that the first of equal
/// elements in row-major order is the left operand all the way.
template <typename Op> Value fold(NodeImport &in, Value x, const Window &w) {
  for (size_t i = w.rank(); i-- > 0;) {
    Value result = tap(in, x, w, i, 0);
    for (int64_t j = 1; j < w.kernel[i]; ++j)
      result = make<Op>(in, result, tap(in, x, w, i, j));
    x = result;
  }
  return x;
}

double lowest(Type element) {
  if (isa<FloatType>(element))
    return -std::numeric_limits<double>::infinity();
  return -std::ldexp(1.0, static_cast<int>(element.getIntOrFloatBitWidth()) - 1);
}

/// Each element's place in its plane, [1, 1, spatial...]; by columns where
/// `byColumns`, that is with the first dimension running fastest.
Value places(NodeImport &in, ArrayRef<int64_t> image, bool byColumns) {
  int64_t count = elementCount(image), rank = image.size();
  SmallVector<int64_t> elements, shape{1, 1};
  shape.append(image.begin(), image.end());
  for (int64_t at = 0; at < count; ++at) {
    int64_t place = 0, rest = at, factor = count;
    for (int64_t d = rank; byColumns && d-- > 0; rest /= image[d]) {
      factor /= image[d];
      place += rest % image[d] * factor;
    }
    elements.push_back(byColumns ? place : at);
  }
  return in.constant(elements, shape);
}

/// MaxPool's second output: where in the whole input each maximum stands, the
/// first one of equals; an element of the padding never.
Value maximumPlaces(NodeImport &in, Value x, const Window &w) {
  ArrayRef<int64_t> image = in.type(0).getShape().drop_front(2);
  bool byColumns = in.integer("storage_order", 0) != 0;
  Value place = framed(in, places(in, image, byColumns), w, -1);
  Value none = scalar(in.builder, in.loc, 0, in.builder.getI64Type());
  for (size_t i = w.rank(); i-- > 0;) {
    Value best = tap(in, x, w, i, 0), where = tap(in, place, w, i, 0);
    for (int64_t j = 1; j < w.kernel[i]; ++j) {
      Value next = tap(in, x, w, i, j);
      Value better =
          make<LogicalOrOp>(in, make<GreaterOp>(in, next, best), make<LessOp>(in, where, none));
      where = make<SelectOp>(in, better, tap(in, place, w, i, j), where);
      best = make<MaximumOp>(in, best, next);
    }
    x = best, place = where;
  }
  ArrayRef<int64_t> shape = tensorType(x).getShape();
  SmallVector<int64_t> planes, planeShape(shape.size(), 1);
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i)
    planes.push_back(i * elementCount(image));
  planeShape[0] = shape[0], planeShape[1] = shape[1];
  return make<AddOp>(in, broadcastTo(in.builder, place, shape), in.constant(planes, planeShape));
}

Outcome maxPool(NodeImport &in) {
  DIFFRUN_ASSIGN(Window w, poolWindow(in));
  Value x = framed(in, in.operand(0), w, lowest(in.type(0).getElementType()));
  NodeImport::Values results{fold<MaximumOp>(in, x, w)};
  if (in.node.output_size() > 1 && !in.node.output(1).empty())
    results.push_back(maximumPlaces(in, x, w));
  return results;
}

/// Elements of each window of one dimension that count.
SmallVector<double> counts(const Window &w, size_t i, int64_t extent, bool withPadding) {
  int64_t first = withPadding ? -w.low[i] : 0;
  int64_t end = withPadding ? extent + w.high[i] : extent + std::min<int64_t>(w.high[i], 0);
  SmallVector<double> all;
  for (int64_t o = 0; o < w.outputs[i]; ++o) {
    int64_t count = 0;
    for (int64_t j = 0; j < w.kernel[i]; ++j) {
      int64_t at = o * w.strides[i] - w.low[i] + j * w.dilations[i];
      count += at >= first && at < end;
    }
    all.push_back(static_cast<double>(std::max<int64_t>(count, 1)));
  }
  return all;
}

Outcome averagePool(NodeImport &in) {
  DIFFRUN_ASSIGN(Window w, poolWindow(in));
  if (!isa<FloatType>(in.type(0).getElementType()))
    return in.fail("averages floats only");
  Value sum = fold<AddOp>(in, framed(in, in.operand(0), w, 0), w);
  Type element = in.type(0).getElementType();
  bool withPadding = in.integer("count_include_pad", 0) != 0;
  double share = 1; // of the dimensions whose windows are all equally full
  for (size_t i = 0; i < w.rank(); ++i) {
    SmallVector<double> shares =
        counts(w, i, in.type(0).getDimSize(static_cast<unsigned>(i + 2)), withPadding);
    for (double &count : shares)
      count = 1 / count;
    if (llvm::all_equal(shares)) {
      share *= shares.front();
      continue;
    }
    sum = make<MulOp>(
        in, sum, realConstant(in, shares, alongAxis(w.rank() + 2, i + 2, shares.size()), element));
  }
  if (share != 1)
    sum = make<MulOp>(in, sum, scalar(in.builder, in.loc, share, element));
  return NodeImport::Values{sum};
}

/// The exponent of a p-norm; a float before opset 2.
Result<double> exponentOf(NodeImport &in) {
  double p = in.opset < 2 ? in.real("p", 2) : static_cast<double>(in.integer("p", 2));
  if (!(p >= 1 && p < 1e6))
    return in.fail("p is " + std::to_string(p) + "; it is at least 1");
  return p;
}

Value power(NodeImport &in, Value x, double p) {
  if (p == 2)
    return make<MulOp>(in, x, x);
  x = make<AbsOp>(in, x);
  if (p == 1)
    return x;
  return make<PowOp>(in, x, scalar(in.builder, in.loc, p, tensorType(x).getElementType()));
}

/// sum^(1/p). Where all is 0 the root's slope is infinite; the gradient is 0 there.
Value root(NodeImport &in, Value sum, double p) {
  if (p == 1)
    return sum;
  auto number = [&](double value) {
    return scalar(in.builder, in.loc, value, tensorType(sum).getElementType());
  };
  Value empty = make<EqualOp>(in, sum, number(0));
  Value safe = make<SelectOp>(in, empty, number(1), sum);
  Value result = p == 2 ? make<SqrtOp>(in, safe) : make<PowOp>(in, safe, number(1 / p));
  return make<SelectOp>(in, empty, number(0), result);
}

Outcome lpPool(NodeImport &in) {
  DIFFRUN_ASSIGN(Window w, poolWindow(in));
  DIFFRUN_ASSIGN(double p, exponentOf(in));
  Value x = framed(in, in.operand(0), w, 0);
  return NodeImport::Values{root(in, fold<AddOp>(in, power(in, x, p), w), p)};
}

Status checkGlobal(NodeImport &in) {
  if (in.type(0).getRank() < 3)
    return in.fail("needs at least one spatial dimension");
  if (elementCount(in.type(0).getShape().drop_front(2)) == 0)
    return in.fail("has nothing to pool over");
  return {};
}

template <typename Op> Value overImage(NodeImport &in, Value x) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, in.type(0).getRank()));
  return make<Op>(in, x, axes, true);
}

template <typename Op> Outcome globalPool(NodeImport &in) {
  DIFFRUN_RETURN_IF_ERROR(checkGlobal(in));
  return NodeImport::Values{overImage<Op>(in, in.operand(0))};
}

Outcome globalLpPool(NodeImport &in) {
  DIFFRUN_RETURN_IF_ERROR(checkGlobal(in));
  DIFFRUN_ASSIGN(double p, exponentOf(in));
  return NodeImport::Values{root(in, overImage<ReduceSumOp>(in, power(in, in.operand(0), p)), p)};
}

} // namespace

void addPoolHandlers(HandlerTable &t) {
  t["MaxPool"] = {maxPool};
  t["AveragePool"] = {averagePool};
  t["LpPool"] = {lpPool};
  t["GlobalMaxPool"] = {globalPool<ReduceMaxOp>};
  t["GlobalAveragePool"] = {globalPool<ReduceMeanOp>};
  t["GlobalLpPool"] = {globalLpPool};
}

} // namespace diffc
