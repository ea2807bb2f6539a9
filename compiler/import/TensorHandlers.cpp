// Import of operators that move or reduce elements, and of shape arithmetic.
#include "compiler/import/Axes.h"
#include "compiler/import/Importer.h"

#include <cmath>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// Fails where a shape that the model computes is impossible.
diffrun::Status checkShape(NodeImport &in, ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 48))
      return in.fail("asks for an impossible shape");
  return {};
}

const char *kDynamic = "must be known when the model is compiled: it depends on data";

Outcome reshapeTo(NodeImport &in, ArrayRef<int64_t> shape) {
  return in.build<ReshapeOp>(in.operand(0), shape);
}

Outcome reshape(NodeImport &in) {
  auto wanted = in.constantIntegers(1);
  if (!wanted)
    return in.fail(std::string("the shape ") + kDynamic);
  ArrayRef<int64_t> from = in.type(0).getShape();
  int64_t open = -1, known = 1;
  for (auto [i, extent] : llvm::enumerate(*wanted)) {
    if (extent == 0 && !in.integer("allowzero", 0)) {
      if (i >= from.size())
        return in.fail("shape entry 0 has no input dimension to copy");
      extent = from[i];
    }
    if (extent == -1) {
      if (open >= 0)
        return in.fail("two shape entries are -1");
      open = static_cast<int64_t>(i);
    } else {
      known *= extent;
    }
  }
  if (open >= 0) {
    (*wanted)[open] = 1;
    DIFFRUN_RETURN_IF_ERROR(checkShape(in, *wanted));
    if (known == 0 || elementCount(from) % known)
      return in.fail("the open dimension does not come out whole");
    (*wanted)[open] = elementCount(from) / known;
  }
  DIFFRUN_RETURN_IF_ERROR(checkShape(in, *wanted));
  return reshapeTo(in, *wanted);
}

Outcome flatten(NodeImport &in) {
  int64_t rank = in.type(0).getRank(), axis = in.integer("axis", 1);
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis > rank)
    return in.fail("axis is out of range");
  ArrayRef<int64_t> shape = in.type(0).getShape();
  return reshapeTo(in,
                   {elementCount(shape.take_front(axis)), elementCount(shape.drop_front(axis))});
}

Outcome squeeze(NodeImport &in) {
  ArrayRef<int64_t> from = in.type(0).getShape();
  DIFFRUN_ASSIGN(auto axes, axesOf(in, from.size(), 13));
  SmallVector<int64_t> shape;
  for (auto [i, extent] : llvm::enumerate(from)) {
    bool named = axes ? llvm::is_contained(*axes, static_cast<int64_t>(i)) : extent == 1;
    if (named && extent != 1)
      return in.fail("dimension " + std::to_string(i) + " is " + std::to_string(extent) +
                     ", not 1");
    if (!named)
      shape.push_back(extent);
  }
  return reshapeTo(in, shape);
}

Outcome unsqueeze(NodeImport &in) {
  ArrayRef<int64_t> from = in.type(0).getShape();
  auto count = in.opset >= 13 ? in.constantIntegers(1).value_or(SmallVector<int64_t>())
                              : in.integers("axes");
  int64_t rank = from.size() + count.size();
  DIFFRUN_ASSIGN(auto axes, axesOf(in, rank, 13));
  if (!axes)
    return in.fail("axes are missing");
  SmallVector<int64_t> shape;
  for (int64_t i = 0, next = 0; i < rank; ++i)
    shape.push_back(llvm::is_contained(*axes, i) ? 1 : from[next++]);
  return reshapeTo(in, shape);
}

Outcome transpose(NodeImport &in) {
  SmallVector<int64_t> permutation = in.integers("perm");
  if (permutation.empty())
    for (int64_t i = in.type(0).getRank(); i-- > 0;)
      permutation.push_back(i);
  return in.build<TransposeOp>(in.operand(0), permutation);
}

Outcome expand(NodeImport &in) {
  auto wanted = in.constantIntegers(1);
  if (!wanted)
    return in.fail(std::string("the shape ") + kDynamic);
  DIFFRUN_RETURN_IF_ERROR(checkShape(in, *wanted));
  auto shape = broadcastShape(in.type(0).getShape(), *wanted);
  if (!shape)
    return in.fail("the input does not broadcast to the shape");
  if (ArrayRef<int64_t>(*shape) == in.type(0).getShape())
    return NodeImport::Values{in.operand(0)};
  return in.build<BroadcastToOp>(in.operand(0), *shape);
}

/// One dimension of ONNX Slice: first element, count. Bounds are clamped as
/// the standard says; the end is exclusive, also when counting down.
std::pair<int64_t, int64_t> sliceRange(int64_t extent, int64_t start, int64_t end, int64_t step) {
  auto wrap = [&](int64_t at) { return at < 0 ? at + extent : at; };
  // INT64_MIN + extent must not wrap around to a valid position.
  start = start < -extent ? -1 : wrap(start);
  end = end < -extent ? -1 : wrap(end);
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, extent);
    end = std::clamp<int64_t>(end, 0, extent);
    return {start, end > start ? (end - start + step - 1) / step : 0};
  }
  start = std::clamp<int64_t>(start, extent ? 0 : -1, extent - 1);
  end = std::clamp<int64_t>(end, -1, extent - 1);
  return {start, start > end ? (start - end - step - 1) / -step : 0};
}

Outcome slice(NodeImport &in) {
  SmallVector<int64_t> starts, ends, axes, steps;
  if (in.opset >= 10) {
    auto s = in.constantIntegers(1), e = in.constantIntegers(2);
    if (!s || !e || (in.operand(3) && !in.constantIntegers(3)) ||
        (in.operand(4) && !in.constantIntegers(4)))
      return in.fail(std::string("starts, ends, axes and steps ") + kDynamic);
    starts = *s, ends = *e;
    axes = in.operand(3) ? *in.constantIntegers(3) : SmallVector<int64_t>();
    steps = in.operand(4) ? *in.constantIntegers(4) : SmallVector<int64_t>();
  } else {
    starts = in.integers("starts"), ends = in.integers("ends"), axes = in.integers("axes");
  }
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return in.fail("starts, ends, axes and steps differ in length");
  int64_t rank = in.type(0).getRank();
  SmallVector<int64_t> from(rank, 0), sizes(in.type(0).getShape()), strides(rank, 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    auto axis = NodeImport::wrapAxis(axes[i], rank);
    if (!axis || steps[i] == 0)
      return in.fail(axis ? "a step is 0" : "an axis is out of range");
    auto [first, count] = sliceRange(sizes[*axis], starts[i], ends[i], steps[i]);
    from[*axis] = count ? first : 0;
    sizes[*axis] = count;
    strides[*axis] = steps[i];
  }
  return in.build<SliceOp>(in.operand(0), from, sizes, strides);
}

Outcome split(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  auto axis = NodeImport::wrapAxis(in.integer("axis", 0), rank);
  if (!axis)
    return in.fail("axis is out of range");
  int64_t extent = in.type(0).getDimSize(*axis);
  SmallVector<int64_t> sizes = in.integers("split");
  if (in.opset >= 13 && in.operand(1)) {
    auto given = in.constantIntegers(1);
    if (!given)
      return in.fail(std::string("the sizes ") + kDynamic);
    sizes = *given;
  }
  if (sizes.empty()) {
    int64_t parts = in.integer("num_outputs", in.node.output_size());
    if (parts < 1)
      return in.fail("num_outputs must be at least 1");
    int64_t chunk = (extent + parts - 1) / parts, last = extent - chunk * (parts - 1);
    if (last < 0 || (in.opset < 18 && last != chunk))
      return in.fail("a length of " + std::to_string(extent) + " does not split into " +
                     std::to_string(parts) + " parts");
    sizes.assign(parts, chunk);
    sizes.back() = last;
  }
  int64_t total = 0;
  for (int64_t size : sizes)
    total += size;
  if (total != extent || llvm::any_of(sizes, [](int64_t s) { return s < 0; }) ||
      static_cast<int>(sizes.size()) != in.node.output_size())
    return in.fail("the sizes do not fit a length of " + std::to_string(extent));
  NodeImport::Values parts;
  SmallVector<int64_t> starts(rank, 0), shape(in.type(0).getShape()), strides(rank, 1);
  for (int64_t size : sizes) {
    shape[*axis] = size;
    DIFFRUN_ASSIGN(auto part, in.build<SliceOp>(in.operand(0), starts, shape, strides));
    parts.push_back(part[0]);
    starts[*axis] += size;
  }
  return parts;
}

Outcome concat(NodeImport &in) {
  auto axis = NodeImport::wrapAxis(in.integer("axis", 0), in.type(0).getRank());
  if (!axis)
    return in.fail("axis is out of range");
  return in.build<ConcatOp>(ValueRange(in.operands), *axis);
}

Outcome gather(NodeImport &in) {
  auto axis = NodeImport::wrapAxis(in.integer("axis", 0), in.type(0).getRank());
  if (!axis)
    return in.fail("axis is out of range");
  return in.build<GatherOp>(in.operand(0), in.operand(1), *axis);
}

Outcome shape(NodeImport &in) {
  ArrayRef<int64_t> shape = in.type(0).getShape();
  int64_t rank = shape.size(), start = in.integer("start", 0), end = in.integer("end", rank);
  auto clampAxis = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  start = clampAxis(start), end = std::max(clampAxis(end), start);
  return NodeImport::Values{in.constant(shape.slice(start, end - start), {end - start})};
}

Outcome constantOfShape(NodeImport &in) {
  auto wanted = in.constantIntegers(0);
  if (!wanted)
    return in.fail(std::string("the shape ") + kDynamic);
  DIFFRUN_RETURN_IF_ERROR(checkShape(in, *wanted));
  Value single = scalar(in.builder, in.loc, 0, in.builder.getF32Type());
  if (const auto *attribute = in.find("value")) {
    Type element = elementType(*in.builder.getContext(), attribute->t().data_type());
    if (!element)
      return in.fail("the value has element type " + std::to_string(attribute->t().data_type()) +
                     ", which diffc does not have");
    DIFFRUN_ASSIGN(auto value, tensorElements(*in.builder.getContext(), in.file, attribute->t()));
    if (value.getNumElements() != 1)
      return in.fail("the value must be one element");
    single =
        in.builder.create<ConstantOp>(in.loc, value.reshape(RankedTensorType::get({}, element)));
  }
  return NodeImport::Values{broadcastTo(in.builder, single, *wanted)};
}

/// start + i * delta below (above) the limit; floats counted in double precision.
Outcome range(NodeImport &in) {
  constexpr double kMost = 1 << 24;
  Type element = in.type(0).getElementType();
  SmallVector<double> ends; // start, limit, delta
  for (size_t i = 0; i < 3; ++i) {
    auto whole = in.constantIntegers(i);
    auto real = in.constantReals(i);
    if ((whole  ? whole->size()
         : real ? real->size()
                : 0) != 1 ||
        in.type(i).getElementType() != element)
      return in.fail(std::string("start, limit and delta must be numbers of one type and ") +
                     kDynamic);
    ends.push_back(whole ? static_cast<double>((*whole)[0]) : (*real)[0]);
  }
  double count = std::max(0.0, std::ceil((ends[1] - ends[0]) / ends[2]));
  if (ends[2] == 0 || !(count <= kMost))
    return in.fail(ends[2] == 0 ? "the step is 0" : "makes more than 2^24 elements");
  auto size = static_cast<int64_t>(count);
  auto type = RankedTensorType::get({size}, element);
  if (isa<FloatType>(element)) {
    SmallVector<APFloat> elements;
    for (int64_t i = 0; i < size; ++i) {
      APFloat value(ends[0] + static_cast<double>(i) * ends[2]);
      bool lost;
      value.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &lost);
      elements.push_back(value);
    }
    return NodeImport::Values{
        in.builder.create<ConstantOp>(in.loc, DenseElementsAttr::get(type, elements))};
  }
  int64_t start = (*in.constantIntegers(0))[0], step = (*in.constantIntegers(2))[0];
  SmallVector<APInt> elements;
  for (int64_t i = 0; i < size; ++i)
    elements.push_back(APInt(element.getIntOrFloatBitWidth(),
                             static_cast<uint64_t>(start + i * step), /*isSigned=*/true));
  return NodeImport::Values{
      in.builder.create<ConstantOp>(in.loc, DenseElementsAttr::get(type, elements))};
}

} // namespace

void addTensorHandlers(HandlerTable &t) {
  t["Reshape"] = {reshape, 5, 2};
  t["Flatten"] = {flatten};
  t["Squeeze"] = {squeeze};
  t["Unsqueeze"] = {unsqueeze};
  t["Transpose"] = {transpose};
  t["Expand"] = {expand, 8, 2};
  t["Slice"] = {slice};
  t["Split"] = {split, 2};
  t["Concat"] = {concat, 4, HandlerEntry::kAll};
  t["Gather"] = {gather, 1, 2};
  t["Shape"] = {shape};
  t["ConstantOfShape"] = {constantOfShape, 9};
  t["Range"] = {range, 11, 3};
}

} // namespace diffc
