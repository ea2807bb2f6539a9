// Import of operators that read or write by index, and of what they are made of:
// elements, slices, masks by position.
#include "compiler/import/Axes.h"

#include <llvm/ADT/StringSwitch.h>

#include <cmath>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

const char *kDynamic = " must be known when the model is compiled: it depends on data";

Terms indexTerms(NodeImport &in) { return {in, in.builder.getI64Type()}; }

//===--- Places --------------------------------------------------------------===//

/// One coordinate of places: i64, negative ones counted from the end of `extent`.
/// `valid` is joined with whether it lies within.
Value coordinate(const Terms &n, Value index, int64_t extent, Value &valid) {
  index = n.cast(index, n.element);
  Value size = n.c(static_cast<double>(extent)), negative = n.less(index, n.c(0));
  Value wrapped = n.select(negative, n.add(index, size), index);
  Value inside =
      n.make<LogicalAndOp>(n.less(wrapped, size), n.make<LogicalNotOp>(n.less(wrapped, n.c(0))));
  valid = valid ? n.make<LogicalAndOp>(valid, inside) : inside;
  return wrapped;
}

/// `place`, or one past `count` elements where it is not valid, which the
/// evaluator refuses and a kernel keeps within memory.
Value checkedPlace(const Terms &n, Value place, Value valid, int64_t count) {
  return n.select(valid, place, n.c(static_cast<double>(count)));
}

/// Row-major places in `shape` of the elements that `indices` names along `axis`,
/// standing themselves at the other coordinates. Shape: that of the indices.
Value elementPlaces(const Terms &n, Value indices, ArrayRef<int64_t> shape, int64_t axis) {
  SmallVector<int64_t> own(tensorType(indices).getShape());
  Value place, valid;
  int64_t stride = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    Value at = d == axis ? coordinate(n, indices, shape[d], valid) : iota(n, own, d);
    at = n.mul(at, n.c(static_cast<double>(stride)));
    place = place ? n.add(place, at) : at;
    stride *= shape[d];
  }
  return checkedPlace(n, place, valid, stride);
}

diffrun::Status checkElementIndices(NodeImport &in, int64_t axis, bool othersFit) {
  ArrayRef<int64_t> data = in.type(0).getShape(), own = in.type(1).getShape();
  if (own.size() != data.size())
    return in.fail("data and indices differ in rank");
  for (auto [d, extents] : llvm::enumerate(llvm::zip(own, data)))
    if (othersFit && static_cast<int64_t>(d) != axis && std::get<0>(extents) > std::get<1>(extents))
      return in.fail("dimension " + std::to_string(d) +
                     " of the indices is larger than the data's");
  return {};
}

Result<int64_t> axisOf(NodeImport &in, int64_t fallback) {
  auto axis = NodeImport::wrapAxis(in.integer("axis", fallback), in.type(0).getRank());
  if (!axis)
    return in.fail("axis is out of range");
  return *axis;
}

Value flat(NodeImport &in, Value x) {
  return nn::reshape(in.builder, x, {tensorType(x).getNumElements()});
}

/// result[i][j] = data[index[i][j]][j], with `axis` in place of the first.
Value elementsAt(const Terms &n, Value data, Value indices, int64_t axis) {
  Value places = elementPlaces(n, indices, tensorType(data).getShape(), axis);
  return n.make<GatherOp>(flat(n.in, data), places, 0);
}

Outcome gatherElements(NodeImport &in) {
  DIFFRUN_ASSIGN(int64_t axis, axisOf(in, 0));
  DIFFRUN_RETURN_IF_ERROR(checkElementIndices(in, axis, true));
  return NodeImport::Values{elementsAt(indexTerms(in), in.operand(0), in.operand(1), axis)};
}

/// Places of slices: data [batches, indexed..., slice...] and indices
/// [batches, ..., indexed dimensions], as rows of a matrix.
struct SlicePlaces {
  Value rows;         ///< one number per slice
  int64_t count;      ///< rows of the data
  int64_t slice;      ///< elements of one
  int64_t dimensions; ///< of the data that are batches or indexed
};

Result<SlicePlaces> slicePlaces(NodeImport &in, int64_t batches) {
  ArrayRef<int64_t> data = in.type(0).getShape(), own = in.type(1).getShape();
  if (batches < 0 || own.empty() || batches >= static_cast<int64_t>(own.size()) ||
      data.take_front(batches) != own.take_front(batches))
    return in.fail("batch_dims does not fit data and indices");
  int64_t depth = own.back(), rank = own.size();
  if (depth < 0 || batches + depth > static_cast<int64_t>(data.size()))
    return in.fail("the indices have " + std::to_string(depth) + " coordinates for data of rank " +
                   std::to_string(data.size() - batches));
  Terms n = indexTerms(in);
  SlicePlaces places{{},
                     elementCount(data.take_front(batches + depth)),
                     elementCount(data.drop_front(batches + depth)),
                     batches + depth};
  SmallVector<int64_t> starts(rank, 0), sizes(own), unit(rank, 1);
  sizes.back() = 1;
  Value valid, place;
  int64_t stride = 1;
  auto join = [&](Value at, int64_t extent) {
    at = n.mul(at, n.c(static_cast<double>(stride)));
    place = place ? n.add(place, at) : at;
    stride *= extent;
  };
  for (int64_t i = depth - 1; i >= 0; --i) {
    starts.back() = i;
    Value column = n.make<SliceOp>(in.operand(1), starts, sizes, unit);
    join(coordinate(n, column, data[batches + i], valid), data[batches + i]);
  }
  for (int64_t i = batches - 1; i >= 0; --i)
    join(iota(n, sizes, i), data[i]);
  if (!place)
    place = n.c(0);
  if (valid)
    place = checkedPlace(n, place, valid, places.count);
  places.rows = flat(in, broadcastTo(in.builder, place, sizes));
  return places;
}

Outcome gatherNd(NodeImport &in) {
  DIFFRUN_ASSIGN(SlicePlaces at, slicePlaces(in, in.integer("batch_dims", 0)));
  ArrayRef<int64_t> data = in.type(0).getShape(), own = in.type(1).getShape();
  Value rows = nn::reshape(in.builder, in.operand(0), {at.count, at.slice});
  DIFFRUN_ASSIGN(auto found, in.build<GatherOp>(rows, at.rows, 0));
  SmallVector<int64_t> shape(own.drop_back());
  llvm::append_range(shape, data.drop_front(at.dimensions));
  return NodeImport::Values{nn::reshape(in.builder, found[0], shape)};
}

//===--- Scatter -------------------------------------------------------------===//

/// What several updates of one place do.
enum class Combine { kReplace, kAdd, kMul, kMax, kMin };

Result<Combine> combineOf(NodeImport &in) {
  std::string name = in.text("reduction", "none");
  auto found = llvm::StringSwitch<std::optional<Combine>>(name)
                   .Case("none", Combine::kReplace)
                   .Case("add", Combine::kAdd)
                   .Case("mul", Combine::kMul)
                   .Case("max", Combine::kMax)
                   .Case("min", Combine::kMin)
                   .Default(std::nullopt);
  if (!found)
    return in.fail("reduction \"" + name + "\" is none of none, add, mul, max and min");
  if (in.type(2).getElementType() != in.type(0).getElementType())
    return in.fail("the updates have another element type than the data");
  return *found;
}

/// data[rows[i]] = updates[i], or plus it: data [count, slice]. An update that
/// shares its place with another one adds to it (ONNX leaves replacing by
/// several open).
Value scatterRows(const Terms &t, Value data, Value rows, Value updates, bool adds) {
  int64_t count = tensorType(data).getDimSize(0);
  if (tensorType(data).getNumElements() == 0 || tensorType(updates).getNumElements() == 0)
    return data;
  // Integers by way of doubles, which scatter_add adds.
  Type real = t.isReal() ? t.element : t.in.builder.getF64Type();
  Value sum = t.make<ScatterAddOp>(rows, t.cast(updates, real), 0, count);
  if (adds)
    return t.add(data, t.cast(sum, t.element));
  Terms r(t.in, real);
  Value ones = broadcastTo(t.in.builder, r.c(1), {tensorType(rows).getNumElements(), 1});
  Value hit = r.greater(r.make<ScatterAddOp>(rows, ones, 0, count), r.c(0));
  return t.select(hit, t.cast(sum, t.element), data);
}

/// The neutral element of a maximum (of a minimum: the largest number).
Value lowest(const Terms &t, bool largest) {
  double infinity = std::numeric_limits<double>::infinity();
  if (t.isReal())
    return t.c(largest ? infinity : -infinity);
  Value least = t.c(-std::ldexp(1.0, static_cast<int>(t.element.getIntOrFloatBitWidth()) - 1));
  return largest ? t.sub(least, t.c(1)) : least; // wraps around
}

/// data combined with all updates that `hit` it, along `axis` of the updates: by
/// comparing every place with every update, whose derivative is exact.
Value combineHits(const Terms &t, Value data, Value hit, Value updates, int64_t axis, Combine how) {
  SmallVector<int64_t> shape(tensorType(data).getShape()), axes{axis};
  if (how == Combine::kMul) {
    Value factors = productAlong(t, t.select(hit, updates, t.c(1)), axis);
    return t.mul(data, nn::reshape(t.in.builder, factors, shape));
  }
  bool isMin = how == Combine::kMin;
  Value candidates = t.select(hit, updates, lowest(t, isMin));
  if (isMin)
    return t.min(data, t.make<ReduceMinOp>(candidates, axes, false));
  return t.max(data, t.make<ReduceMaxOp>(candidates, axes, false));
}

/// x with dimension `axis` at the end, and 1 in its old place.
Value axisToEnd(const Terms &t, Value x, int64_t axis) {
  SmallVector<int64_t> shape(tensorType(x).getShape()), order;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (d != axis)
      order.push_back(d);
  order.push_back(axis);
  shape.push_back(std::exchange(shape[axis], 1));
  return nn::reshape(t.in.builder, nn::transpose(t.in.builder, x, order), shape);
}

Outcome scatterElements(NodeImport &in) {
  DIFFRUN_ASSIGN(int64_t axis, axisOf(in, 0));
  DIFFRUN_ASSIGN(Combine how, combineOf(in));
  DIFFRUN_RETURN_IF_ERROR(checkElementIndices(in, axis, true));
  ArrayRef<int64_t> shape = in.type(0).getShape(), own = in.type(1).getShape();
  if (in.type(2).getShape() != own)
    return in.fail("indices and updates differ in shape");
  Terms t(in, 0), n = indexTerms(in);
  Value data = in.operand(0), updates = in.operand(2);
  if (in.type(1).getNumElements() == 0 || in.type(0).getNumElements() == 0)
    return NodeImport::Values{data};
  if (how == Combine::kReplace || how == Combine::kAdd) {
    auto column = [&](Value x) {
      return nn::reshape(in.builder, x, {tensorType(x).getNumElements(), 1});
    };
    Value places = flat(in, elementPlaces(n, in.operand(1), shape, axis));
    Value y = scatterRows(t, column(data), places, column(updates), how == Combine::kAdd);
    return NodeImport::Values{nn::reshape(in.builder, y, shape)};
  }
  // Indices and updates as wide as the data; an index past the end hits nothing.
  Value valid, index = coordinate(n, in.operand(1), shape[axis], valid);
  SmallVector<int64_t> none(shape.size(), 0), missing(shape.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d)
    if (static_cast<int64_t>(d) != axis)
      missing[d] = shape[d] - own[d];
  auto widened = [&](Value x, double filler) -> Value {
    if (llvm::all_of(missing, [](int64_t m) { return m == 0; }))
      return x;
    return t.make<PadOp>(x, none, missing, none, APFloat(filler));
  };
  index = axisToEnd(t, widened(index, static_cast<double>(shape[axis])), axis);
  updates = axisToEnd(t, widened(updates, 0), axis);
  SmallVector<int64_t> line(shape);
  line.push_back(1);
  Value hit = t.equal(index, iota(n, line, axis));
  return NodeImport::Values{
      combineHits(t, data, hit, updates, static_cast<int64_t>(shape.size()), how)};
}

Outcome scatterNd(NodeImport &in) {
  DIFFRUN_ASSIGN(Combine how, combineOf(in));
  DIFFRUN_ASSIGN(SlicePlaces at, slicePlaces(in, 0));
  ArrayRef<int64_t> shape = in.type(0).getShape();
  SmallVector<int64_t> expected(in.type(1).getShape().drop_back());
  llvm::append_range(expected, shape.drop_front(at.dimensions));
  if (in.type(2).getShape() != ArrayRef<int64_t>(expected))
    return in.fail("the updates' shape is not that of the indices and slices");
  Terms t(in, 0), n = indexTerms(in);
  Value data = nn::reshape(in.builder, in.operand(0), {at.count, at.slice});
  int64_t many = tensorType(at.rows).getNumElements();
  Value updates = nn::reshape(in.builder, in.operand(2), {many, at.slice}), y;
  if (many == 0 || in.type(0).getNumElements() == 0)
    return NodeImport::Values{in.operand(0)};
  if (how == Combine::kReplace || how == Combine::kAdd) {
    y = scatterRows(t, data, at.rows, updates, how == Combine::kAdd);
  } else {
    Value row = iota(n, {at.count, 1, 1}, 0);
    Value hit = t.equal(row, nn::reshape(in.builder, at.rows, {1, many, 1}));
    y = combineHits(t, data, hit, nn::reshape(in.builder, updates, {1, many, at.slice}), 1, how);
  }
  return NodeImport::Values{nn::reshape(in.builder, y, shape)};
}

//===--- Order ---------------------------------------------------------------===//

/// The place of each element in its line's order, by comparing it with every
/// other one: how many come before it. Of equal ones the first comes first, and
/// NaN counts as the largest. [..., n, ...] i64.
Value placesInOrder(const Terms &t, Value x, int64_t axis, bool largest) {
  Terms n = indexTerms(t.in);
  SmallVector<int64_t> shape(tensorType(x).getShape()), wide(shape);
  int64_t rank = shape.size();
  wide.push_back(1);
  Value mine = nn::reshape(t.in.builder, x, wide), other = axisToEnd(t, x, axis);
  Value before = largest ? t.greater(other, mine) : t.less(other, mine);
  Value equal = t.equal(other, mine);
  if (t.isReal()) {
    Value mineNan = t.make<NotEqualOp>(mine, mine), otherNan = t.make<NotEqualOp>(other, other);
    Value first = largest ? otherNan : mineNan, second = largest ? mineNan : otherNan;
    before = t.make<LogicalOrOp>(before, t.make<LogicalAndOp>(first, t.make<LogicalNotOp>(second)));
    equal = t.make<LogicalOrOp>(equal, t.make<LogicalAndOp>(mineNan, otherNan));
  }
  SmallVector<int64_t> line(rank + 1, 1);
  line[axis] = shape[axis];
  Value at = iota(n, line, axis);
  line[axis] = 1, line[rank] = shape[axis];
  Value earlier = n.less(iota(n, line, rank), at);
  before = t.make<LogicalOrOp>(before, t.make<LogicalAndOp>(equal, earlier));
  return n.make<ReduceSumOp>(n.cast(before, n.element), ArrayRef<int64_t>{rank}, false);
}

Outcome topK(NodeImport &in) {
  DIFFRUN_ASSIGN(int64_t axis, axisOf(in, -1));
  int64_t count = in.integer("k", -1), rank = in.type(0).getRank();
  if (in.opset >= 10) {
    auto given = in.constantIntegers(1);
    if (!given || given->size() != 1)
      return in.fail(std::string("K") + kDynamic);
    count = (*given)[0];
  }
  if (count < 0 || count > in.type(0).getDimSize(axis))
    return in.fail("K is " + std::to_string(count) + " for a dimension of " +
                   std::to_string(in.type(0).getDimSize(axis)));
  Terms t(in, 0), n = indexTerms(in);
  Value x = in.operand(0);
  Value order = axisToEnd(n, placesInOrder(t, x, axis, in.integer("largest", 1)), axis);
  SmallVector<int64_t> line(rank + 1, 1);
  line[axis] = count;
  Value chosen = n.equal(order, iota(n, line, axis));
  line[axis] = 1, line[rank] = in.type(0).getDimSize(axis);
  Value found = n.select(chosen, iota(n, line, rank), n.c(0));
  Value indices = n.make<ReduceSumOp>(found, ArrayRef<int64_t>{rank}, false);
  return NodeImport::Values{elementsAt(n, x, indices, axis), indices};
}

/// The first sequence_lens[b] steps of each sequence, last one first.
Outcome reverseSequence(NodeImport &in) {
  int64_t time = in.integer("time_axis", 0), batch = in.integer("batch_axis", 1);
  if (in.type(0).getRank() < 2 || time < 0 || time > 1 || batch != 1 - time)
    return in.fail("time_axis and batch_axis must be 0 and 1, or 1 and 0");
  SmallVector<int64_t> shape(in.type(0).getShape()), line(shape.size(), 1);
  line[batch] = shape[batch];
  if (in.type(1).getShape() != ArrayRef<int64_t>{shape[batch]})
    return in.fail("sequence_lens does not have one entry per sequence");
  Terms n = indexTerms(in);
  Value length = nn::reshape(in.builder, n.cast(in.operand(1), n.element), line);
  Value at = iota(n, shape, time);
  Value mirrored = n.sub(n.sub(length, n.c(1)), at);
  Value from = n.select(n.less(at, length), mirrored, at);
  return NodeImport::Values{
      elementsAt(n, in.operand(0), broadcastTo(in.builder, from, shape), time)};
}

//===--- Masks by position ---------------------------------------------------===//

Outcome trilu(NodeImport &in) {
  ArrayRef<int64_t> shape = in.type(0).getShape();
  int64_t rank = shape.size(), k = 0;
  if (rank < 2)
    return in.fail("needs matrices");
  if (in.operand(1)) {
    auto given = in.constantIntegers(1);
    if (!given || given->size() != 1)
      return in.fail(std::string("k") + kDynamic);
    k = std::clamp<int64_t>((*given)[0], -shape[rank - 2] - 1, shape[rank - 1] + 1);
  }
  Terms t(in, 0), n = indexTerms(in);
  Value diagonal = n.add(iota(n, shape, rank - 2), n.c(static_cast<double>(k)));
  Value column = iota(n, shape, rank - 1);
  // Upper: column >= row + k. Lower: column <= row + k.
  Value drop = in.integer("upper", 1) ? n.less(column, diagonal) : n.greater(column, diagonal);
  return NodeImport::Values{t.select(drop, t.c(0), in.operand(0))};
}

Outcome eyeLike(NodeImport &in) {
  if (in.type(0).getRank() != 2)
    return in.fail("needs a matrix");
  Type element = in.type(0).getElementType();
  if (in.has("dtype"))
    element = elementType(*in.builder.getContext(), in.integer("dtype", 0));
  if (!element)
    return in.fail("element type " + std::to_string(in.integer("dtype", 0)) + " is not supported");
  ArrayRef<int64_t> shape = in.type(0).getShape();
  int64_t k = std::clamp<int64_t>(in.integer("k", 0), -shape[0] - 1, shape[1] + 1);
  Terms n = indexTerms(in);
  Value diagonal = n.add(iota(n, shape, 0), n.c(static_cast<double>(k)));
  return NodeImport::Values{n.cast(n.equal(iota(n, shape, 1), diagonal), element)};
}

/// values[1] where the index is the position along a new axis, else values[0].
Outcome oneHot(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  auto axis = NodeImport::wrapAxis(in.integer("axis", -1), rank + 1);
  auto whole = in.constantIntegers(1);
  auto real = in.constantReals(1);
  if (!axis || (!whole && !real))
    return in.fail(axis ? std::string("the depth") + kDynamic : "axis is out of range");
  if ((whole ? whole->size() : real->size()) != 1 || in.type(2).getNumElements() != 2)
    return in.fail("needs one depth and two values");
  int64_t depth = whole ? (*whole)[0] : static_cast<int64_t>((*real)[0]);
  if (depth < 0 || depth > (int64_t{1} << 31))
    return in.fail("a depth of " + std::to_string(depth));
  Terms t(in, 2), n = indexTerms(in);
  SmallVector<int64_t> shape(in.type(0).getShape());
  shape.insert(shape.begin() + *axis, 1);
  Value index = nn::reshape(in.builder, n.cast(in.operand(0), n.element), shape);
  Value size = n.c(static_cast<double>(depth));
  index = n.select(n.less(index, n.c(0)), n.add(index, size), index);
  shape[*axis] = depth;
  Value hit = n.equal(index, iota(n, shape, *axis));
  auto value = [&](int64_t i) {
    Value one = t.make<SliceOp>(flat(in, in.operand(2)), ArrayRef<int64_t>{i}, ArrayRef<int64_t>{1},
                                ArrayRef<int64_t>{1});
    return nn::reshape(in.builder, one, {});
  };
  return NodeImport::Values{t.select(hit, value(1), value(0))};
}

Outcome tile(NodeImport &in) {
  auto repeats = in.constantIntegers(1);
  ArrayRef<int64_t> shape = in.type(0).getShape();
  if (!repeats)
    return in.fail(std::string("repeats") + kDynamic);
  if (repeats->size() != shape.size())
    return in.fail("repeats does not have one entry per dimension");
  SmallVector<int64_t> apart, wide, result;
  for (auto [extent, times] : llvm::zip(shape, *repeats)) {
    if (times < 0)
      return in.fail("repeats " + std::to_string(times) + " times");
    apart.append({1, extent});
    wide.append({times, extent});
    result.push_back(extent * times);
  }
  if (elementCount(result) == 0)
    return NodeImport::Values{zeros(in.builder, in.loc, in.type(0).clone(result))};
  Value split = nn::reshape(in.builder, in.operand(0), apart);
  return in.build<ReshapeOp>(broadcastTo(in.builder, split, wide), result);
}

Outcome size(NodeImport &in) {
  return NodeImport::Values{in.constant({in.type(0).getNumElements()}, {})};
}

} // namespace

void addIndexHandlers(HandlerTable &t) {
  t["GatherElements"] = {gatherElements, 11, 2};
  t["GatherND"] = {gatherNd, 11, 2};
  t["Scatter"] = {scatterElements, 9, 3};
  t["ScatterElements"] = {scatterElements, 11, 3};
  t["ScatterND"] = {scatterNd, 11, 3};
  t["TopK"] = {topK};
  t["ReverseSequence"] = {reverseSequence, 10, 2};
  t["Trilu"] = {trilu, 14};
  t["EyeLike"] = {eyeLike, 9};
  t["OneHot"] = {oneHot, 9, 3, {1}};
  t["Tile"] = {tile, 6, 2};
  t["Size"] = {size};
}

} // namespace diffc
