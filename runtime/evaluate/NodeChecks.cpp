#include "runtime/evaluate/NodeChecks.h"

#include "runtime/evaluate/Indexing.h"

#include <limits>
#include <numeric>

namespace diffrun::evaluate {
namespace {

/// Extents and attributes beyond this are nobody's tensor; products of two fit
/// 64 bits.
constexpr int64_t kLargest = int64_t{1} << 31;
/// Elements of one tensor: 64 GiB in double precision.
constexpr int64_t kMostElements = int64_t{1} << 33;

using Shape = std::vector<int64_t>;

/// One node with what is asked of it again and again.
struct Checker {
  const Node &node;
  const std::vector<const TensorType *> &in;
  const std::vector<TensorType> &out;

  Status wrong(const std::string &what) const { return Status::internal(what); }

  Status count(size_t required, size_t most, size_t results = 1) const {
    if (in.size() < required || in.size() > most)
      return wrong("has " + std::to_string(in.size()) + " operands");
    for (size_t i = 0; i < required; ++i)
      if (!in[i])
        return wrong("operand " + std::to_string(i) + " is absent");
    if (out.size() != results)
      return wrong("has " + std::to_string(out.size()) + " results");
    return {};
  }
  Status real(const TensorType &type) const {
    return isFloat(type.dtype) ? Status() : wrong(type.str() + " is no float");
  }
  Status whole(const TensorType &type) const {
    return isFloat(type.dtype) || type.dtype == DType::kBool ? wrong(type.str() + " is no integer")
                                                             : Status();
  }
  Status boolean(const TensorType &type) const {
    return type.dtype == DType::kBool ? Status() : wrong(type.str() + " is no boolean");
  }
  Status same(const TensorType &a, const TensorType &b) const {
    return a == b ? Status() : wrong(a.str() + " should be " + b.str());
  }
  Status sameElements(const TensorType &a, const TensorType &b) const {
    return a.dtype == b.dtype ? Status() : wrong(a.str() + " and " + b.str());
  }
  Status broadcasts(const TensorType &from, const TensorType &to) const {
    return broadcastStrides(from.shape, to.shape).status();
  }
  Status axis(int64_t value, const TensorType &type) const {
    return value >= 0 && value < static_cast<int64_t>(type.shape.size())
               ? Status()
               : wrong("axis " + std::to_string(value) + " of " + type.str());
  }
  /// Axes of `type`, each once.
  Status axes(const std::vector<int64_t> &values, const TensorType &type) const {
    std::vector<bool> seen(type.shape.size(), false);
    for (int64_t value : values) {
      DIFFRUN_RETURN_IF_ERROR(axis(value, type));
      if (seen[static_cast<size_t>(value)])
        return wrong("axis " + std::to_string(value) + " is named twice");
      seen[static_cast<size_t>(value)] = true;
    }
    return {};
  }
  Status elements(const TensorType &type, int64_t wanted) const {
    return type.count() == wanted
               ? Status()
               : wrong(type.str() + " should have " + std::to_string(wanted) + " elements");
  }
  /// Attribute `name`: one small integer per dimension.
  Result<Shape> perDimension(const std::string &name, size_t rank, int64_t least) const {
    Shape values = node.integers(name);
    if (values.size() != rank)
      return wrong(name + " does not have " + std::to_string(rank) + " entries");
    for (int64_t value : values)
      if (value < least || value > kLargest)
        return wrong(name + " " + std::to_string(value) + " is out of range");
    return values;
  }
};

using Check = Status (*)(const Checker &);

//===--- Element-wise --------------------------------------------------------===//

Status unary(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  return c.same(*c.in[0], c.out[0]);
}
Status unaryReal(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(unary(c));
  return c.real(c.out[0]);
}
Status gradOfUnary(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  DIFFRUN_RETURN_IF_ERROR(c.same(*c.in[0], c.out[0]));
  DIFFRUN_RETURN_IF_ERROR(c.same(*c.in[1], c.out[0]));
  return c.real(c.out[0]);
}
Status cast(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  return c.in[0]->shape == c.out[0].shape ? Status() : c.wrong("changes the shape");
}
Status operandsBroadcast(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], *c.in[1]));
  DIFFRUN_RETURN_IF_ERROR(c.broadcasts(*c.in[0], c.out[0]));
  return c.broadcasts(*c.in[1], c.out[0]);
}
Status arithmetic(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(operandsBroadcast(c));
  return c.sameElements(*c.in[0], c.out[0]);
}
Status power(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(arithmetic(c));
  return c.real(c.out[0]);
}
Status bitwise(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(arithmetic(c));
  return c.whole(c.out[0]);
}
Status compare(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(operandsBroadcast(c));
  return c.boolean(c.out[0]);
}
Status select(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(3, 3));
  DIFFRUN_RETURN_IF_ERROR(c.boolean(*c.in[0]));
  for (size_t i = 0; i < 3; ++i)
    DIFFRUN_RETURN_IF_ERROR(c.broadcasts(*c.in[i], c.out[0]));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[1], c.out[0]));
  return c.sameElements(*c.in[2], c.out[0]);
}

//===--- Moves and reductions ------------------------------------------------===//

Status constant(const Checker &c) { return c.count(0, 0); }
Status iota(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(0, 0));
  return c.axis(c.node.integer("axis"), c.out[0]);
}
Status reduce(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], c.out[0]));
  DIFFRUN_RETURN_IF_ERROR(c.axes(c.node.integers("axes"), *c.in[0]));
  Shape kept = c.in[0]->shape;
  for (int64_t axis : c.node.integers("axes"))
    kept[static_cast<size_t>(axis)] = 1;
  return c.elements(c.out[0], TensorType{DType::kF64, kept}.count());
}
Status broadcastTo(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], c.out[0]));
  return c.broadcasts(*c.in[0], c.out[0]);
}
Status reshape(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], c.out[0]));
  return c.elements(c.out[0], c.in[0]->count());
}
Status transpose(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], c.out[0]));
  Shape permutation = c.node.integers("permutation"), shape;
  DIFFRUN_RETURN_IF_ERROR(c.axes(permutation, *c.in[0]));
  for (int64_t from : permutation)
    shape.push_back(c.in[0]->shape[static_cast<size_t>(from)]);
  return shape.size() == c.in[0]->shape.size() && shape == c.out[0].shape
             ? Status()
             : c.wrong("permutes to another shape than " + c.out[0].str());
}
Status slice(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], c.out[0]));
  size_t rank = c.in[0]->shape.size();
  DIFFRUN_ASSIGN(Shape starts, c.perDimension("starts", rank, 0));
  DIFFRUN_ASSIGN(Shape strides, c.perDimension("strides", rank, -kLargest));
  if (c.out[0].shape.size() != rank)
    return c.wrong("changes the rank");
  if (c.out[0].count() == 0)
    return {};
  for (size_t i = 0; i < rank; ++i) {
    int64_t last = starts[i] + (c.out[0].shape[i] - 1) * strides[i];
    if (starts[i] >= c.in[0]->shape[i] || last < 0 || last >= c.in[0]->shape[i])
      return c.wrong("goes past dimension " + std::to_string(i) + " of " + c.in[0]->str());
  }
  return {};
}
Status concat(const Checker &c) {
  if (c.in.empty() || c.out.size() != 1)
    return c.wrong("has no operands, or not one result");
  int64_t axis = c.node.integer("axis"), extent = 0;
  DIFFRUN_RETURN_IF_ERROR(c.axis(axis, c.out[0]));
  for (const TensorType *part : c.in) {
    if (!part || part->shape.size() != c.out[0].shape.size())
      return c.wrong("a part has another rank");
    DIFFRUN_RETURN_IF_ERROR(c.sameElements(*part, c.out[0]));
    for (size_t i = 0; i < part->shape.size(); ++i)
      if (static_cast<int64_t>(i) != axis && part->shape[i] != c.out[0].shape[i])
        return c.wrong("a part is " + part->str());
    extent += part->shape[static_cast<size_t>(axis)];
  }
  return extent == c.out[0].shape[static_cast<size_t>(axis)] ? Status()
                                                             : c.wrong("parts do not add up");
}
Status pad(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 1));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], c.out[0]));
  size_t rank = c.in[0]->shape.size();
  DIFFRUN_RETURN_IF_ERROR(c.perDimension("low", rank, -kLargest).status());
  DIFFRUN_RETURN_IF_ERROR(c.perDimension("interior", rank, 0).status());
  return c.out[0].shape.size() == rank ? Status() : c.wrong("changes the rank");
}
Status reverse(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(unary(c));
  return c.axes(c.node.integers("axes"), c.out[0]);
}
Status gather(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[0], c.out[0]));
  DIFFRUN_RETURN_IF_ERROR(c.whole(*c.in[1]));
  int64_t axis = c.node.integer("axis");
  DIFFRUN_RETURN_IF_ERROR(c.axis(axis, *c.in[0]));
  AxisView table = viewAround(c.in[0]->shape, axis);
  int64_t all = 0;
  if (__builtin_mul_overflow(table.outer * table.inner, c.in[1]->count(), &all))
    return c.wrong("has too many rows");
  return c.elements(c.out[0], all);
}
Status scatterAdd(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  DIFFRUN_RETURN_IF_ERROR(c.whole(*c.in[0]));
  DIFFRUN_RETURN_IF_ERROR(c.real(*c.in[1]));
  DIFFRUN_RETURN_IF_ERROR(c.sameElements(*c.in[1], c.out[0]));
  int64_t axis = c.node.integer("axis"), all = 0;
  DIFFRUN_RETURN_IF_ERROR(c.axis(axis, c.out[0]));
  AxisView table = viewAround(c.out[0].shape, axis);
  if (__builtin_mul_overflow(table.outer * table.inner, c.in[0]->count(), &all))
    return c.wrong("has too many rows");
  return c.elements(*c.in[1], all);
}

//===--- Norms and softmax ---------------------------------------------------===//

/// Entries of a norm's scale and bias; an error where there are no rows.
Result<int64_t> affineEntries(const Checker &c, bool grouped) {
  const TensorType &x = *c.in[0];
  DIFFRUN_RETURN_IF_ERROR(c.real(x));
  if (x.count() == 0)
    return c.wrong("normalises nothing: " + x.str());
  if (grouped) {
    int64_t groups = c.node.integer("groups", 1);
    if (x.shape.size() < 2 || groups < 1 || x.shape[1] % groups)
      return c.wrong(std::to_string(groups) + " groups of " + x.str());
    return x.shape[1];
  }
  int64_t axis = c.node.integer("axis");
  DIFFRUN_RETURN_IF_ERROR(c.axis(axis, x));
  return std::accumulate(x.shape.begin() + axis, x.shape.end(), int64_t{1},
                         std::multiplies<int64_t>());
}

template <bool grouped> Status norm(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(1, 3));
  DIFFRUN_ASSIGN(int64_t entries, affineEntries(c, grouped));
  DIFFRUN_RETURN_IF_ERROR(c.same(*c.in[0], c.out[0]));
  for (size_t i = 1; i < c.in.size(); ++i)
    if (c.in[i]) {
      DIFFRUN_RETURN_IF_ERROR(c.real(*c.in[i]));
      DIFFRUN_RETURN_IF_ERROR(c.elements(*c.in[i], entries));
    }
  return {};
}

template <bool grouped> Status normGrad(const Checker &c) {
  if (c.in.size() < 2 || c.in.size() > 3 || !c.in.front() || !c.in.back() || c.out.empty() ||
      c.out.size() > 3)
    return c.wrong("takes an input, a scale and an output gradient");
  DIFFRUN_ASSIGN(int64_t entries, affineEntries(c, grouped));
  DIFFRUN_RETURN_IF_ERROR(c.same(*c.in.back(), *c.in[0]));
  DIFFRUN_RETURN_IF_ERROR(c.same(c.out[0], *c.in[0]));
  if (c.in.size() == 3 && c.in[1]) {
    DIFFRUN_RETURN_IF_ERROR(c.real(*c.in[1]));
    DIFFRUN_RETURN_IF_ERROR(c.elements(*c.in[1], entries));
  }
  for (size_t i = 1; i < c.out.size(); ++i) {
    DIFFRUN_RETURN_IF_ERROR(c.real(c.out[i]));
    DIFFRUN_RETURN_IF_ERROR(c.elements(c.out[i], entries));
  }
  return {};
}

Status softmax(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(unaryReal(c));
  return c.axis(c.node.integer("axis"), c.out[0]);
}
Status softmaxGrad(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(gradOfUnary(c));
  return c.axis(c.node.integer("axis"), c.out[0]);
}

//===--- Contractions --------------------------------------------------------===//

Status allReal(const Checker &c) {
  for (const TensorType *type : c.in)
    if (type)
      DIFFRUN_RETURN_IF_ERROR(c.real(*type));
  for (const TensorType &type : c.out)
    DIFFRUN_RETURN_IF_ERROR(c.real(type));
  return {};
}

Status matmul(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  DIFFRUN_RETURN_IF_ERROR(allReal(c));
  Shape a = c.in[0]->shape, b = c.in[1]->shape, y = c.out[0].shape;
  if (a.size() < 2 || b.size() < 2 || y.size() < 2)
    return c.wrong("of " + c.in[0]->str() + " and " + c.in[1]->str());
  if (c.node.integer("transpose_a"))
    std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (c.node.integer("transpose_b"))
    std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a.back() != b[b.size() - 2] || y.back() != b.back() || y[y.size() - 2] != a[a.size() - 2])
    return c.wrong("of " + c.in[0]->str() + " and " + c.in[1]->str() + " to " + c.out[0].str());
  auto batches = [](const Shape &shape) {
    return TensorType{DType::kF64, Shape(shape.begin(), shape.end() - 2)};
  };
  DIFFRUN_RETURN_IF_ERROR(c.broadcasts(batches(a), batches(y)));
  return c.broadcasts(batches(b), batches(y));
}

/// Shapes of a convolution: x and w and y wherever they come from.
Status convolutionOf(const Checker &c, const TensorType &x, const TensorType &w,
                     const TensorType &y) {
  DIFFRUN_RETURN_IF_ERROR(allReal(c));
  size_t rank = x.shape.size();
  if (rank < 3 || rank > 5 || w.shape.size() != rank || y.shape.size() != rank)
    return c.wrong("of " + x.str() + " with " + w.str() + " to " + y.str());
  DIFFRUN_RETURN_IF_ERROR(c.perDimension("strides", rank - 2, 1).status());
  DIFFRUN_RETURN_IF_ERROR(c.perDimension("dilations", rank - 2, 1).status());
  DIFFRUN_RETURN_IF_ERROR(c.perDimension("pads_low", rank - 2, -kLargest).status());
  int64_t groups = c.node.integer("groups", 1);
  if (groups < 1 || groups > kLargest || w.shape[1] > kLargest ||
      x.shape[1] != w.shape[1] * groups || w.shape[0] % groups || y.shape[0] != x.shape[0] ||
      y.shape[1] != w.shape[0])
    return c.wrong("channels or groups do not fit: " + x.str() + ", " + w.str() + ", " + y.str());
  return {};
}
Status convolution(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  return convolutionOf(c, *c.in[0], *c.in[1], c.out[0]);
}
Status convolutionInputGrad(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  return convolutionOf(c, c.out[0], *c.in[1], *c.in[0]);
}
Status convolutionWeightGrad(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(2, 2));
  return convolutionOf(c, *c.in[0], c.out[0], *c.in[1]);
}

Status attention(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(3, 4));
  DIFFRUN_RETURN_IF_ERROR(allReal(c));
  const Shape &q = c.in[0]->shape, &k = c.in[1]->shape, &v = c.in[2]->shape;
  bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] && q[0] == v[0] &&
              q[1] == k[1] && q[1] == v[1] && q[3] == k[3] && k[2] == v[2];
  if (!fits || c.out[0].shape != Shape{q[0], q[1], q[2], v[3]})
    return c.wrong("of " + c.in[0]->str() + ", " + c.in[1]->str() + ", " + c.in[2]->str());
  if (c.in.size() == 4 && c.in[3])
    return c.broadcasts(*c.in[3], {DType::kF64, {q[0], q[1], q[2], k[2]}});
  return {};
}

//===--- Training ------------------------------------------------------------===//

Status draw(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(3, 3));
  for (size_t i = 0; i < 3; ++i) {
    DIFFRUN_RETURN_IF_ERROR(c.whole(*c.in[i]));
    DIFFRUN_RETURN_IF_ERROR(c.elements(*c.in[i], 1));
  }
  int64_t use = c.node.integer("use");
  if (use < 0 || use > std::numeric_limits<uint32_t>::max())
    return c.wrong("use " + std::to_string(use) + " does not fit 32 bits");
  return c.out[0].dtype == DType::kF32 ? Status() : c.wrong("draws " + c.out[0].str());
}
Status globalNorm(const Checker &c) {
  if (c.out.size() != 1)
    return c.wrong("has one result");
  for (const TensorType *type : c.in)
    if (!type)
      return c.wrong("an operand is absent");
  DIFFRUN_RETURN_IF_ERROR(allReal(c));
  return c.elements(c.out[0], 1);
}
Status update(const Checker &c) {
  DIFFRUN_RETURN_IF_ERROR(c.count(8, 8, 3));
  DIFFRUN_RETURN_IF_ERROR(c.real(c.out[0]));
  for (size_t i = 0; i < 4; ++i)
    DIFFRUN_RETURN_IF_ERROR(c.elements(*c.in[i], c.out[0].count()));
  for (size_t i = 0; i < 4; ++i)
    DIFFRUN_RETURN_IF_ERROR(c.real(*c.in[i]));
  for (size_t i = 1; i < 3; ++i) {
    DIFFRUN_RETURN_IF_ERROR(c.real(c.out[i]));
    DIFFRUN_RETURN_IF_ERROR(c.elements(c.out[i], c.out[0].count()));
  }
  for (size_t i = 4; i < 8; ++i)
    DIFFRUN_RETURN_IF_ERROR(c.elements(*c.in[i], 1));
  DIFFRUN_RETURN_IF_ERROR(c.real(*c.in[4]));
  DIFFRUN_RETURN_IF_ERROR(c.whole(*c.in[5]));
  DIFFRUN_RETURN_IF_ERROR(c.real(*c.in[6]));
  return c.boolean(*c.in[7]);
}

const std::map<std::string, Check> &checks() {
  static const std::map<std::string, Check> all = [] {
    std::map<std::string, Check> made = {
        {"nn.neg", unary},
        {"nn.abs", unary},
        {"nn.sign", unary},
        {"nn.logical_not", unary},
        {"nn.gelu_grad", gradOfUnary},
        {"nn.silu_grad", gradOfUnary},
        {"nn.cast", cast},
        {"nn.pow", power},
        {"nn.bitwise_and", bitwise},
        {"nn.select", select},
        {"nn.constant", constant},
        {"nn.iota", iota},
        {"nn.broadcast_to", broadcastTo},
        {"nn.reshape", reshape},
        {"nn.transpose", transpose},
        {"nn.slice", slice},
        {"nn.concat", concat},
        {"nn.pad", pad},
        {"nn.reverse", reverse},
        {"nn.gather", gather},
        {"nn.scatter_add", scatterAdd},
        {"nn.layer_norm", norm<false>},
        {"nn.rms_norm", norm<false>},
        {"nn.group_norm", norm<true>},
        {"nn.layer_norm_grad", normGrad<false>},
        {"nn.rms_norm_grad", normGrad<false>},
        {"nn.group_norm_grad", normGrad<true>},
        {"nn.softmax", softmax},
        {"nn.log_softmax", softmax},
        {"nn.softmax_grad", softmaxGrad},
        {"nn.matmul", matmul},
        {"nn.convolution", convolution},
        {"nn.convolution_input_grad", convolutionInputGrad},
        {"nn.convolution_weight_grad", convolutionWeightGrad},
        {"nn.attention", attention},
        {"train.draw", draw},
        {"train.global_norm", globalNorm},
        {"train.update", update},
    };
    for (const char *name : {"floor", "ceil",    "round",      "exp",  "expm1",    "log",  "log1p",
                             "sqrt",  "rsqrt",   "reciprocal", "sin",  "cos",      "atan", "tanh",
                             "erf",   "sigmoid", "relu",       "silu", "softplus", "gelu"})
      made[std::string("nn.") + name] = unaryReal;
    for (const char *name : {"add", "sub", "mul", "div", "remainder", "maximum", "minimum"})
      made[std::string("nn.") + name] = arithmetic;
    for (const char *name : {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
                             "logical_and", "logical_or"})
      made[std::string("nn.") + name] = compare;
    for (const char *name : {"sum", "mean", "max", "min"})
      made[std::string("nn.reduce_") + name] = reduce;
    return made;
  }();
  return all;
}

} // namespace

Status checkNode(const Node &node, const std::vector<const TensorType *> &operands,
                 const std::vector<TensorType> &results) {
  auto check = checks().find(node.op);
  if (check == checks().end())
    return Status::internal("no operator of this name");
  auto possible = [](const TensorType &type) {
    int64_t count = 1;
    for (int64_t extent : type.shape)
      if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || extent > kLargest)
        return false;
    return count <= kMostElements;
  };
  for (const TensorType *type : operands)
    if (type && !possible(*type))
      return Status::internal(type->str() + " is too large to evaluate");
  for (const TensorType &type : results)
    if (!possible(type))
      return Status::internal(type.str() + " is too large to evaluate");
  return check->second({node, operands, results});
}

std::vector<std::string> checkedOperators() {
  std::vector<std::string> names;
  for (const auto &[name, check] : checks())
    names.push_back(name);
  return names;
}

} // namespace diffrun::evaluate
