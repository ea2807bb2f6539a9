#include "runtime/plan/OpChecks.h"

#include "runtime/core/DType.h"

#include <optional>

namespace diffrun {
namespace {

using Shape = google::protobuf::RepeatedField<int64_t>;

/// Product of positive extents; nullopt where one is not or it overflows.
std::optional<int64_t> count(const Shape &shape) {
  int64_t product = 1;
  for (int64_t extent : shape)
    if (extent < 1 || __builtin_mul_overflow(product, extent, &product) ||
        product > (int64_t{1} << 46))
      return std::nullopt;
  return product;
}

bool fits(const proto::Buffer &buffer, std::optional<int64_t> elements, int64_t each) {
  return elements && *elements * each == buffer.bytes();
}

Status wrong(const char *what) { return Status::invalid(what); }

/// Types that oneDNN multiplies here.
bool isComputable(proto::DType dtype) { return dtype == proto::F32 || dtype == proto::BF16; }

/// The last element that a strided matrix reaches, plus one.
std::optional<int64_t> reach(const Shape &shape, const Shape &strides) {
  if (shape.size() != strides.size() || shape.size() < 2 || !count(shape))
    return std::nullopt;
  int64_t last = 0;
  for (int i = 0; i < shape.size(); ++i) {
    int64_t step;
    if (strides[i] < 0 || __builtin_mul_overflow(shape[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  return last + 1;
}

Status checkMatmul(const proto::Op &op) {
  const proto::Matmul &m = op.matmul();
  if (op.operands_size() != (m.bias() ? 3 : 2) || op.results_size() != 1)
    return wrong("a matmul with the wrong number of buffers");
  if (!isComputable(m.dtype()))
    return wrong("a matmul of a type that it cannot have");
  int64_t each = byteSize(static_cast<DType>(m.dtype()));
  int rank = m.c_shape_size();
  if (rank < 2 || rank > 8 || m.a_shape_size() != rank || m.b_shape_size() != rank)
    return wrong("matmul operands of different ranks");
  int64_t rows = m.c_shape(rank - 2), columns = m.c_shape(rank - 1), depth = m.a_shape(rank - 1);
  if (m.a_shape(rank - 2) != rows || m.b_shape(rank - 1) != columns || m.b_shape(rank - 2) != depth)
    return wrong("matmul shapes that do not go together");
  for (int i = 0; i < rank - 2; ++i)
    for (int64_t extent : {m.a_shape(i), m.b_shape(i)})
      if (extent != 1 && extent != m.c_shape(i))
        return wrong("matmul batches that do not go together");
  auto a = reach(m.a_shape(), m.a_strides()), b = reach(m.b_shape(), m.b_strides());
  if (!a || !b || *a > op.operands(0).bytes() / each || *b > op.operands(1).bytes() / each ||
      !fits(op.results(0), count(m.c_shape()), each) ||
      (m.bias() && op.operands(2).bytes() != columns * each))
    return wrong("matmul shapes that do not fit its buffers");
  return {};
}

Status checkConvolution(const proto::Op &op) {
  const proto::Convolution &c = op.convolution();
  if (op.operands_size() != (c.bias() ? 3 : 2) || op.results_size() != 1)
    return wrong("a convolution with the wrong number of buffers");
  if (c.bias() && c.kind() != proto::Convolution::FORWARD)
    return wrong("a bias on a backward convolution");
  if (!proto::Convolution::Kind_IsValid(c.kind()) || !isComputable(c.dtype()))
    return wrong("a convolution of a kind or type that does not exist");
  int rank = c.x_shape_size(), spatial = rank - 2;
  if (rank < 3 || rank > 5 || c.w_shape_size() != rank || c.y_shape_size() != rank ||
      c.strides_size() != spatial || c.pads_low_size() != spatial ||
      c.pads_high_size() != spatial || c.dilations_size() != spatial)
    return wrong("convolution shapes of different ranks");
  auto x = count(c.x_shape()), w = count(c.w_shape()), y = count(c.y_shape());
  constexpr int64_t kMost = 1 << 24; // no window is larger
  if (!x || !w || !y || c.groups() < 1 || c.groups() > kMost || c.w_shape(1) > kMost ||
      c.x_shape(1) != c.w_shape(1) * c.groups() || c.w_shape(0) % c.groups() ||
      c.y_shape(1) != c.w_shape(0) || c.y_shape(0) != c.x_shape(0))
    return wrong("convolution channels that do not go together");
  for (int i = 0; i < spatial; ++i) {
    for (int64_t value : {c.strides(i), c.dilations(i), c.w_shape(i + 2)})
      if (value < 1 || value > kMost)
        return wrong("a convolution stride, dilation or kernel out of range");
    for (int64_t value : {c.pads_low(i), c.pads_high(i)})
      if (value < 0 || value > kMost)
        return wrong("a convolution pad out of range");
    int64_t span = c.x_shape(i + 2) + c.pads_low(i) + c.pads_high(i) -
                   c.dilations(i) * (c.w_shape(i + 2) - 1) - 1;
    if (span < 0 || span / c.strides(i) + 1 != c.y_shape(i + 2))
      return wrong("convolution extents that do not go together");
  }
  int64_t each = byteSize(static_cast<DType>(c.dtype()));
  const proto::Buffer &first = op.operands(0), &second = op.operands(1), &result = op.results(0);
  bool fit = false;
  if (c.kind() == proto::Convolution::FORWARD)
    fit = fits(first, x, each) && fits(second, w, each) && fits(result, y, each);
  else if (c.kind() == proto::Convolution::INPUT_GRAD)
    fit = fits(first, y, each) && fits(second, w, each) && fits(result, x, each);
  else
    fit = fits(first, x, each) && fits(second, y, each) && fits(result, w, each);
  if (!fit || (c.bias() && op.operands(2).bytes() != c.w_shape(0) * each))
    return wrong("convolution shapes that do not fit its buffers");
  return {};
}

Status checkDraw(const proto::Op &op) {
  const proto::Draw &draw = op.draw();
  if (!proto::Draw::Distribution_IsValid(draw.distribution()))
    return wrong("a draw from a distribution that does not exist");
  if (op.operands_size() != 3 || op.results_size() != 1)
    return wrong("a draw with the wrong number of buffers");
  for (const proto::Buffer &operand : op.operands())
    if (operand.bytes() != 8)
      return wrong("a draw whose seed, iteration or first sample is no i64");
  int64_t elements;
  if (draw.samples() < 0 || draw.elements() < 0 ||
      __builtin_mul_overflow(draw.samples(), draw.elements(), &elements) ||
      elements > (int64_t{1} << 44) || elements * 4 != op.results(0).bytes())
    return wrong("a draw that does not fit its buffer");
  return {};
}

} // namespace

Status checkOp(const proto::Op &op) {
  if (!op.has_launch() && op.scratch_size() > 1)
    return wrong("a call with more than one scratch buffer");
  switch (op.kind_case()) {
  case proto::Op::kLaunch:
    if (op.launch().symbol().empty() || op.launch().chunks() < 1 ||
        op.launch().chunks() > (1 << 20))
      return wrong("a launch without a symbol or with an impossible number of chunks");
    return {};
  case proto::Op::kMatmul:
    return checkMatmul(op);
  case proto::Op::kConvolution:
    return checkConvolution(op);
  case proto::Op::kDraw:
    return checkDraw(op);
  case proto::Op::kCopy:
    if (op.operands_size() != 1 || op.results_size() != 1 ||
        op.operands(0).bytes() != op.results(0).bytes())
      return wrong("a copy between buffers of different sizes");
    return {};
  case proto::Op::KIND_NOT_SET:
    break;
  }
  return wrong("an operation of a kind that this diffrun does not have");
}

} // namespace diffrun
