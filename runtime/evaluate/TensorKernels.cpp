// Kernels of the operators that move or reduce elements.
#include "runtime/evaluate/Indexing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diffrun::evaluate {
namespace {

/// Copies element `from` of `in` to element `to` of `out`.
void copyElement(const Tensor &in, int64_t from, Tensor &out, int64_t to) {
  if (out.isReal())
    out.real[to] = in.real[from];
  else
    out.integer[to] = in.integer[from];
}

Status constant(const Node &node, const Operands &, Results &out) {
  auto found = node.attributes.find("value");
  const Tensor *value =
      found == node.attributes.end() ? nullptr : std::get_if<Tensor>(&found->second);
  if (!value || value->type != out[0].type)
    return Status::internal("constant without a value of its type");
  out[0] = *value;
  return {};
}

Status iota(const Node &node, const Operands &, Results &out) {
  int64_t axis = node.integer("axis");
  std::vector<int64_t> strides(out[0].type.shape.size(), 0);
  strides[axis] = 1;
  forEach(out[0].type.shape, {strides}, [&](int64_t i, const std::vector<int64_t> &at) {
    if (out[0].isReal())
      out[0].real[i] = static_cast<double>(at[0]);
    else
      out[0].integer[i] = at[0];
  });
  return {};
}

/// Strides of the reduced result, over the input's dimensions (0 where reduced).
std::vector<int64_t> reducedStrides(const std::vector<int64_t> &shape,
                                    const std::vector<int64_t> &axes) {
  std::vector<int64_t> kept = shape;
  for (int64_t axis : axes)
    kept[axis] = 1;
  std::vector<int64_t> strides = rowMajorStrides(kept);
  for (int64_t axis : axes)
    strides[axis] = 0;
  return strides;
}

template <typename Combine>
Status reduce(const Node &node, const Operands &in, Results &out, double initial, Combine combine) {
  std::vector<int64_t> axes = node.integers("axes");
  std::fill(out[0].real.begin(), out[0].real.end(), initial);
  DType dtype = out[0].type.dtype;
  std::fill(out[0].integer.begin(), out[0].integer.end(),
            dtype == DType::kBool ? initial > 0 : saturate(initial, dtype));
  forEach(in[0]->type.shape, {reducedStrides(in[0]->type.shape, axes)},
          [&](int64_t i, const std::vector<int64_t> &at) {
            if (out[0].isReal())
              out[0].real[at[0]] = combine(out[0].real[at[0]], in[0]->real[i]);
            else
              out[0].integer[at[0]] = combine(out[0].integer[at[0]], in[0]->integer[i]);
          });
  return {};
}

Status reduceSum(const Node &node, const Operands &in, Results &out) {
  DIFFRUN_RETURN_IF_ERROR(reduce(node, in, out, 0, [](auto a, auto b) {
    if constexpr (std::is_integral_v<decltype(a)>) // wraps around
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }));
  for (int64_t &sum : out[0].integer)
    sum = wrapTo(sum, out[0].type.dtype);
  return {};
}
Status reduceMean(const Node &node, const Operands &in, Results &out) {
  if (!out[0].isReal())
    return Status::invalid("the mean of " + out[0].type.str() + " is not defined");
  DIFFRUN_RETURN_IF_ERROR(reduceSum(node, in, out));
  double count =
      static_cast<double>(in[0]->type.count()) / std::max<int64_t>(out[0].type.count(), 1);
  for (double &value : out[0].real)
    value /= count;
  return {};
}
Status reduceMax(const Node &node, const Operands &in, Results &out) {
  return reduce(node, in, out, -std::numeric_limits<double>::infinity(),
                [](auto a, auto b) { return a < b || b != b ? b : a; }); // NaN stays
}
Status reduceMin(const Node &node, const Operands &in, Results &out) {
  return reduce(node, in, out, std::numeric_limits<double>::infinity(),
                [](auto a, auto b) { return b < a || b != b ? b : a; });
}

Status broadcastTo(const Node &, const Operands &in, Results &out) {
  DIFFRUN_ASSIGN(auto strides, broadcastStrides(in[0]->type.shape, out[0].type.shape));
  forEach(out[0].type.shape, {strides}, [&](int64_t i, const std::vector<int64_t> &at) {
    copyElement(*in[0], at[0], out[0], i);
  });
  return {};
}

Status reshape(const Node &, const Operands &in, Results &out) {
  out[0].real = in[0]->real;
  out[0].integer = in[0]->integer;
  return {};
}

Status transpose(const Node &node, const Operands &in, Results &out) {
  std::vector<int64_t> own = rowMajorStrides(in[0]->type.shape), strides;
  for (int64_t from : node.integers("permutation"))
    strides.push_back(own.at(from));
  forEach(out[0].type.shape, {strides}, [&](int64_t i, const std::vector<int64_t> &at) {
    copyElement(*in[0], at[0], out[0], i);
  });
  return {};
}

Status slice(const Node &node, const Operands &in, Results &out) {
  std::vector<int64_t> own = rowMajorStrides(in[0]->type.shape);
  std::vector<int64_t> starts = node.integers("starts"), steps = node.integers("strides");
  int64_t base = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    base += starts[i] * own[i];
    steps[i] *= own[i];
  }
  forEach(out[0].type.shape, {steps}, [&](int64_t i, const std::vector<int64_t> &at) {
    copyElement(*in[0], base + at[0], out[0], i);
  });
  return {};
}

Status concat(const Node &node, const Operands &in, Results &out) {
  int64_t axis = node.integer("axis"), start = 0;
  std::vector<int64_t> strides = rowMajorStrides(out[0].type.shape);
  for (const Tensor *part : in) {
    int64_t base = start * strides.at(axis);
    forEach(part->type.shape, {strides}, [&](int64_t i, const std::vector<int64_t> &at) {
      copyElement(*part, i, out[0], base + at[0]);
    });
    start += part->type.shape.at(axis);
  }
  return {};
}

Status pad(const Node &node, const Operands &in, Results &out) {
  std::vector<int64_t> low = node.integers("low"), interior = node.integers("interior");
  const auto &from = in[0]->type.shape, &to = out[0].type.shape;
  std::vector<int64_t> strides = rowMajorStrides(to);
  double value = node.real("value");
  std::fill(out[0].real.begin(), out[0].real.end(), value);
  std::fill(out[0].integer.begin(), out[0].integer.end(), saturate(value, DType::kI64));
  std::vector<int64_t> index(from.size(), 0);
  for (int64_t i = 0, n = in[0]->type.count(); i < n; ++i) {
    int64_t rest = i, offset = 0;
    bool inside = true;
    for (size_t d = from.size(); d-- > 0;) {
      index[d] = rest % from[d];
      rest /= from[d];
      int64_t place = low[d] + index[d] * (interior[d] + 1);
      inside &= place >= 0 && place < to[d];
      offset += place * strides[d];
    }
    if (inside)
      copyElement(*in[0], i, out[0], offset);
  }
  return {};
}

Status reverse(const Node &node, const Operands &in, Results &out) {
  std::vector<int64_t> strides = rowMajorStrides(in[0]->type.shape);
  int64_t base = 0;
  for (int64_t axis : node.integers("axes")) {
    base += (in[0]->type.shape.at(axis) - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  forEach(out[0].type.shape, {strides}, [&](int64_t i, const std::vector<int64_t> &at) {
    copyElement(*in[0], base + at[0], out[0], i);
  });
  return {};
}

/// A row number from an index, counted from the end where negative.
Result<int64_t> rowOf(int64_t index, int64_t extent) {
  int64_t row = index < 0 ? index + extent : index;
  if (row < 0 || row >= extent)
    return Status::invalid("index " + std::to_string(index) + " is out of range for " +
                           std::to_string(extent) + " rows");
  return row;
}

Status gather(const Node &node, const Operands &in, Results &out) {
  AxisView table = viewAround(in[0]->type.shape, node.integer("axis"));
  int64_t rows = in[1]->type.count();
  for (int64_t o = 0; o < table.outer; ++o)
    for (int64_t r = 0; r < rows; ++r) {
      DIFFRUN_ASSIGN(int64_t row, rowOf(in[1]->integer[r], table.extent));
      for (int64_t i = 0; i < table.inner; ++i)
        copyElement(*in[0], (o * table.extent + row) * table.inner + i, out[0],
                    (o * rows + r) * table.inner + i);
    }
  return {};
}

Status scatterAdd(const Node &node, const Operands &in, Results &out) {
  AxisView table = viewAround(out[0].type.shape, node.integer("axis"));
  int64_t rows = in[0]->type.count();
  for (int64_t o = 0; o < table.outer; ++o)
    for (int64_t r = 0; r < rows; ++r) {
      DIFFRUN_ASSIGN(int64_t row, rowOf(in[0]->integer[r], table.extent));
      for (int64_t i = 0; i < table.inner; ++i)
        out[0].real[(o * table.extent + row) * table.inner + i] +=
            in[1]->real[(o * rows + r) * table.inner + i];
    }
  return {};
}

} // namespace

void registerTensor(Registry &r) {
  r["nn.constant"] = constant;
  r["nn.iota"] = iota;
  r["nn.reduce_sum"] = reduceSum;
  r["nn.reduce_mean"] = reduceMean;
  r["nn.reduce_max"] = reduceMax;
  r["nn.reduce_min"] = reduceMin;
  r["nn.broadcast_to"] = broadcastTo;
  r["nn.reshape"] = reshape;
  r["nn.transpose"] = transpose;
  r["nn.slice"] = slice;
  r["nn.concat"] = concat;
  r["nn.pad"] = pad;
  r["nn.reverse"] = reverse;
  r["nn.gather"] = gather;
  r["nn.scatter_add"] = scatterAdd;
}

} // namespace diffrun::evaluate
