// Import of operators that move or reduce elements, and of shape arithmetic.
#include "compiler/import/NodeImport.h"

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

/// Axes from an operand (since `operandSince`) or an attribute, wrapped and
/// sorted; nullopt where there are none.
Result<std::optional<SmallVector<int64_t>>> axesOf(NodeImport &in, int64_t rank,
                                                   int64_t operandSince) {
  using Maybe = std::optional<SmallVector<int64_t>>;
  SmallVector<int64_t> axes;
  if (in.opset >= operandSince) {
    if (!in.operand(1))
      return Maybe();
    auto given = in.constantIntegers(1);
    if (!given)
      return in.fail(std::string("axes ") + kDynamic);
    axes = *given;
  } else {
    if (!in.has("axes"))
      return Maybe();
    axes = in.integers("axes");
  }
  for (int64_t &axis : axes) {
    auto wrapped = NodeImport::wrapAxis(axis, rank);
    if (!wrapped)
      return in.fail("axis " + std::to_string(axis) + " is out of range for rank " +
                     std::to_string(rank));
    axis = *wrapped;
  }
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return in.fail("an axis is given twice");
  return Maybe(axes);
}

template <typename Op, int64_t kAxesOperandSince> Outcome reduce(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  DIFFRUN_ASSIGN(auto axes, axesOf(in, rank, kAxesOperandSince));
  bool keep = in.integer("keepdims", 1);
  if (!axes || axes->empty()) {
    if (in.integer("noop_with_empty_axes", 0))
      return NodeImport::Values{in.operand(0)};
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  }
  return in.build<Op>(in.operand(0), *axes, keep);
}

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
  Type element = in.builder.getF32Type();
  double value = 0;
  if (const auto *attribute = in.find("value")) {
    const auto &tensor = attribute->t();
    DIFFRUN_ASSIGN(std::string bytes, in.file.bytes(tensor));
    if (tensor.data_type() == onnx::TensorProto::INT64 && bytes.size() == 8) {
      int64_t integer;
      std::memcpy(&integer, bytes.data(), 8);
      element = in.builder.getI64Type(), value = static_cast<double>(integer);
    } else if (tensor.data_type() == onnx::TensorProto::FLOAT && bytes.size() == 4) {
      float real;
      std::memcpy(&real, bytes.data(), 4);
      value = real;
    } else if (tensor.data_type() == onnx::TensorProto::BOOL && bytes.size() == 1) {
      element = in.builder.getI1Type(), value = bytes[0] != 0;
    } else {
      return in.fail("the value must be one f32, i64 or bool");
    }
  }
  DIFFRUN_RETURN_IF_ERROR(checkShape(in, *wanted));
  Value single = scalar(in.builder, in.loc, value, element);
  return in.build<BroadcastToOp>(single, *wanted);
}

Outcome range(NodeImport &in) {
  auto start = in.constantIntegers(0), limit = in.constantIntegers(1),
       delta = in.constantIntegers(2);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 ||
      delta->size() != 1 || (*delta)[0] == 0)
    return in.fail("supported for integers that are known when compiling, step not 0");
  SmallVector<int64_t> elements;
  for (int64_t at = (*start)[0]; (*delta)[0] > 0 ? at < (*limit)[0] : at > (*limit)[0];
       at += (*delta)[0]) {
    if (elements.size() >= (1 << 24))
      return in.fail("makes more than 2^24 elements");
    elements.push_back(at);
  }
  return NodeImport::Values{in.constant(elements, {static_cast<int64_t>(elements.size())})};
}

} // namespace

void addTensorHandlers(HandlerTable &t) {
  t["ReduceSum"] = {reduce<ReduceSumOp, 13>};
  t["ReduceMean"] = {reduce<ReduceMeanOp, 18>};
  t["ReduceMax"] = {reduce<ReduceMaxOp, 18>};
  t["ReduceMin"] = {reduce<ReduceMinOp, 18>};
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
  t["Range"] = {range, 11};
}

} // namespace diffc
