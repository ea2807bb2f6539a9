#include "tests/unit/autodiff/RandomGraph.h"

#include "dialects/nn/IR/Builders.h"

using namespace mlir;
using namespace diffc::nn;

namespace diffc::randomgraph {

RandomGraph::RandomGraph(OpBuilder &builder, Block &block, uint32_t seed)
    : builder(builder), loc(builder.getUnknownLoc()), random(seed),
      element(tensorType(block.getArgument(0)).getElementType()),
      values(block.args_begin(), block.args_end()) {}

// std::uniform_int_distribution differs between libraries; this does not.
int64_t RandomGraph::pick(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
}

Value RandomGraph::any() { return values[pick(0, values.size() - 1)]; }

Value RandomGraph::constant(ArrayRef<int64_t> shape, double low, double high) {
  SmallVector<double> data;
  for (int64_t i = 0; i < elementCount(shape); ++i)
    data.push_back(low + (high - low) * static_cast<double>(random()) / 4294967296.0);
  auto type = RankedTensorType::get(shape, element);
  if (element.isF64())
    return builder.create<ConstantOp>(loc, DenseElementsAttr::get(type, ArrayRef<double>(data)));
  SmallVector<float> narrow(data.begin(), data.end());
  return builder.create<ConstantOp>(loc, DenseElementsAttr::get(type, ArrayRef<float>(narrow)));
}

Value RandomGraph::bounded(Value value) { return builder.create<TanhOp>(loc, value); }

Value RandomGraph::positive(Value value) {
  return builder.create<AddOp>(loc, bounded(value), scalar(builder, loc, 1.5, element));
}

Value RandomGraph::ofRank(int64_t rank) {
  Value value = any();
  int64_t count = tensorType(value).getNumElements();
  SmallVector<int64_t> shape(rank, 1);
  // Deal the prime factors out to the dimensions, the largest to the last ones.
  for (int64_t factor = 2; count > 1;) {
    if (count % factor) {
      ++factor;
      continue;
    }
    shape[pick(0, rank - 1)] *= factor;
    count /= factor;
  }
  return reshape(builder, value, shape);
}

Value RandomGraph::unary() {
  Value x = any();
  switch (pick(0, 13)) {
  case 0:
    return builder.create<NegOp>(loc, x);
  case 1:
    return builder.create<ExpOp>(loc, bounded(x));
  case 2:
    return builder.create<SinOp>(loc, x);
  case 3:
    return builder.create<CosOp>(loc, x);
  case 4:
    return builder.create<TanhOp>(loc, x);
  case 5:
    return builder.create<ErfOp>(loc, x);
  case 6:
    return builder.create<SigmoidOp>(loc, x);
  case 7:
    return builder.create<SiluOp>(loc, x);
  case 8:
    return builder.create<SoftplusOp>(loc, x);
  case 9:
    return builder.create<GeluOp>(loc, x, GeluForm::Erf);
  case 10:
    return builder.create<GeluOp>(loc, x, GeluForm::Tanh);
  case 11:
    return builder.create<ReluOp>(loc, x);
  case 12:
    return builder.create<Expm1Op>(loc, bounded(x));
  default:
    return builder.create<AbsOp>(loc, x);
  }
}

Value RandomGraph::positiveUnary() {
  Value x = positive(any());
  switch (pick(0, 3)) {
  case 0:
    return builder.create<LogOp>(loc, x);
  case 1:
    return builder.create<SqrtOp>(loc, x);
  case 2:
    return builder.create<RsqrtOp>(loc, x);
  default:
    return builder.create<ReciprocalOp>(loc, x);
  }
}

Value RandomGraph::binary() {
  Value x = bounded(any()), y = bounded(any());
  if (!broadcastShape(tensorType(x).getShape(), tensorType(y).getShape()))
    y = constant(tensorType(x).getShape(), -1, 1);
  switch (pick(0, 4)) {
  case 0:
    return builder.create<AddOp>(loc, x, y);
  case 1:
    return builder.create<SubOp>(loc, x, y);
  case 2:
    return builder.create<MulOp>(loc, x, y);
  case 3:
    return builder.create<MaximumOp>(loc, x, y);
  default:
    return builder.create<MinimumOp>(loc, x, y);
  }
}

Value RandomGraph::divide() {
  Value x = bounded(any());
  SmallVector<int64_t> shape(tensorType(x).getShape());
  for (int64_t &extent : shape)
    extent = pick(0, 1) ? extent : 1;
  return builder.create<DivOp>(loc, x, positive(broadcastTo(builder, constant({}, -1, 1), shape)));
}

Value RandomGraph::power() {
  return builder.create<PowOp>(loc, positive(any()), constant({}, -2, 2));
}

Value RandomGraph::select() {
  Value x = bounded(any());
  Value other = constant(tensorType(x).getShape(), -1, 1);
  Value condition =
      builder.create<LessOp>(loc, constant(tensorType(x).getShape(), -1, 1), constant({}, -1, 1));
  return builder.create<SelectOp>(loc, condition, pick(0, 1) ? x : other, x);
}

Value RandomGraph::castBothWays() {
  // f64 -> f64 is the identity; through the fold it disappears, so the path
  // through an integer (no gradient) is added to it.
  Value x = any();
  Value whole = builder.create<CastOp>(loc, x, builder.getI64Type());
  Value back = builder.create<CastOp>(loc, whole, element);
  return builder.create<AddOp>(
      loc, bounded(x), builder.create<MulOp>(loc, back, scalar(builder, loc, 0.0, element)));
}

Value RandomGraph::reduce() {
  Value x = any();
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < tensorType(x).getRank(); ++i)
    if (pick(0, 1))
      axes.push_back(i);
  bool keep = pick(0, 1);
  switch (pick(0, 3)) {
  case 0:
    return builder.create<ReduceSumOp>(loc, x, axes, keep);
  case 1:
    return builder.create<ReduceMeanOp>(loc, x, axes, keep);
  case 2:
    return builder.create<ReduceMaxOp>(loc, x, axes, keep);
  default:
    return builder.create<ReduceMinOp>(loc, x, axes, keep);
  }
}

Value RandomGraph::broadcast() {
  Value x = any();
  SmallVector<int64_t> shape(tensorType(x).getShape());
  for (int64_t &extent : shape)
    if (extent == 1)
      extent = pick(1, 3);
  if (shape.size() < 4)
    shape.insert(shape.begin(), pick(1, 2));
  return broadcastTo(builder, x, shape);
}

Value RandomGraph::reshapeSome() { return ofRank(pick(1, 4)); }

Value RandomGraph::transposeSome() {
  Value x = ofRank(pick(2, 4));
  SmallVector<int64_t> permutation =
      llvm::to_vector(llvm::seq<int64_t>(0, tensorType(x).getRank()));
  for (size_t i = permutation.size(); i-- > 1;)
    std::swap(permutation[i], permutation[pick(0, i)]);
  return transpose(builder, x, permutation);
}

Value RandomGraph::slice() {
  Value x = any();
  SmallVector<int64_t> starts, sizes, strides;
  for (int64_t extent : tensorType(x).getShape()) {
    int64_t start = pick(0, extent - 1), stride = pick(1, 2) * (pick(0, 1) ? 1 : -1);
    int64_t room = stride > 0 ? (extent - 1 - start) / stride : start / -stride;
    starts.push_back(start);
    strides.push_back(stride);
    sizes.push_back(pick(0, room) + 1);
  }
  return builder.create<SliceOp>(loc, x, starts, sizes, strides);
}

Value RandomGraph::pad() {
  Value x = any();
  SmallVector<int64_t> low, high, interior;
  for (int64_t extent : tensorType(x).getShape()) {
    low.push_back(extent > 2 ? pick(-1, 1) : pick(0, 1));
    high.push_back(extent > 2 ? pick(-1, 1) : pick(0, 1));
    interior.push_back(pick(0, 1));
  }
  return builder.create<PadOp>(loc, x, low, high, interior, APFloat(0.5));
}

Value RandomGraph::reverse() {
  Value x = any();
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < tensorType(x).getRank(); ++i)
    if (pick(0, 1))
      axes.push_back(i);
  return builder.create<ReverseOp>(loc, x, axes);
}

Value RandomGraph::concat() {
  Value x = ofRank(pick(1, 4));
  SmallVector<int64_t> shape(tensorType(x).getShape());
  int64_t axis = pick(0, shape.size() - 1);
  shape[axis] = pick(1, 3);
  return builder.create<ConcatOp>(loc, ValueRange{x, constant(shape, -1, 1), x}, axis);
}

Value RandomGraph::gather() {
  Value table = ofRank(pick(1, 3));
  int64_t axis = pick(0, tensorType(table).getRank() - 1);
  int64_t rows = tensorType(table).getDimSize(axis);
  SmallVector<int64_t> indices;
  for (int i = 0; i < 4; ++i)
    indices.push_back(pick(-rows, rows - 1));
  auto type = RankedTensorType::get({2, 2}, builder.getI64Type());
  Value index =
      builder.create<ConstantOp>(loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(indices)));
  return builder.create<GatherOp>(loc, table, index, axis);
}

Value RandomGraph::matmul() {
  Value a = bounded(ofRank(pick(2, 4)));
  bool ta = pick(0, 1), tb = pick(0, 1);
  ArrayRef<int64_t> shape = tensorType(a).getShape();
  int64_t k = ta ? shape[shape.size() - 2] : shape.back(), n = pick(1, 3);
  SmallVector<int64_t> other;
  if (shape.size() > 2 && pick(0, 1))
    other.push_back(pick(0, 1) ? shape[shape.size() - 3] : 1);
  other.append({tb ? n : k, tb ? k : n});
  Value b = constant(other, -1, 1);
  // The constant plus something trainable, so that both sides have gradients.
  b = builder.create<MulOp>(
      loc, b,
      builder.create<ReduceMeanOp>(
          loc, positive(values.front()),
          llvm::to_vector(llvm::seq<int64_t>(0, tensorType(values.front()).getRank())), false));
  return builder.create<MatmulOp>(loc, a, b, ta, tb);
}

Value RandomGraph::convolution() {
  Value x = bounded(ofRank(pick(3, 4)));
  RankedTensorType type = tensorType(x);
  int64_t channels = type.getDimSize(1), groups = pick(0, 1) ? channels : 1;
  SmallVector<int64_t> w{groups * pick(1, 2), channels / groups}, strides, low, high, dilations;
  for (int64_t i = 2; i < type.getRank(); ++i) {
    w.push_back(pick(1, 3));
    dilations.push_back(pick(1, 2));
    strides.push_back(pick(1, 2));
    low.push_back(pick(0, 1));
    int64_t reach = dilations.back() * (w.back() - 1) + 1;
    high.push_back(std::max<int64_t>(reach - type.getDimSize(i) - low.back(), pick(0, 1)));
  }
  Value weight = builder.create<AddOp>(
      loc, constant(w, -1, 1),
      builder.create<ReduceMeanOp>(
          loc, bounded(values.front()),
          llvm::to_vector(llvm::seq<int64_t>(0, tensorType(values.front()).getRank())), false));
  return builder.create<ConvolutionOp>(loc, x, weight, strides, low, high, dilations, groups);
}

Value RandomGraph::transposedConvolution() {
  Value dy = bounded(ofRank(3));
  RankedTensorType type = tensorType(dy);
  int64_t stride = pick(1, 2), kernel = pick(1, 3), channels = pick(1, 2);
  int64_t extent = (type.getDimSize(2) - 1) * stride + kernel;
  Value weight = constant({type.getDimSize(1), channels, kernel}, -1, 1);
  SmallVector<int64_t> shape{type.getDimSize(0), channels, extent};
  return builder.create<ConvolutionInputGradOp>(loc, dy, weight, ArrayRef<int64_t>{stride},
                                                ArrayRef<int64_t>{0}, ArrayRef<int64_t>{0},
                                                ArrayRef<int64_t>{1}, 1, shape);
}

Value RandomGraph::layerNorm() {
  Value x = ofRank(pick(2, 3));
  int64_t axis = pick(0, tensorType(x).getRank() - 1);
  auto tail = tensorType(x).getShape().drop_front(axis);
  Value scale = pick(0, 1) ? positive(constant(tail, -1, 1)) : Value();
  Value bias = scale && pick(0, 1) ? constant(tail, -1, 1) : Value();
  return builder.create<LayerNormOp>(loc, x, scale, bias, axis, APFloat(0.1));
}

Value RandomGraph::rmsNorm() {
  Value x = ofRank(pick(2, 3));
  int64_t axis = pick(0, tensorType(x).getRank() - 1);
  Value scale = pick(0, 1) ? constant(tensorType(x).getShape().drop_front(axis), -1, 1) : Value();
  return builder.create<RmsNormOp>(loc, x, scale, axis, APFloat(0.1));
}

Value RandomGraph::groupNorm() {
  Value x = ofRank(pick(3, 4));
  int64_t channels = tensorType(x).getDimSize(1);
  int64_t groups = channels % 2 ? 1 : 2;
  Value scale = pick(0, 1) ? positive(constant({channels}, -1, 1)) : Value();
  Value bias = scale ? constant({channels}, -1, 1) : Value();
  return builder.create<GroupNormOp>(loc, x, scale, bias, groups, APFloat(0.1));
}

Value RandomGraph::softmax() {
  Value x = ofRank(pick(1, 3));
  int64_t axis = pick(0, tensorType(x).getRank() - 1);
  if (pick(0, 1))
    return builder.create<SoftmaxOp>(loc, x, axis);
  return builder.create<LogSoftmaxOp>(loc, x, axis);
}

const std::vector<RandomGraph::Entry> &RandomGraph::entries() {
  static const std::vector<Entry> all = {
      {"unary", &RandomGraph::unary},
      {"positiveUnary", &RandomGraph::positiveUnary},
      {"binary", &RandomGraph::binary},
      {"divide", &RandomGraph::divide},
      {"power", &RandomGraph::power},
      {"select", &RandomGraph::select},
      {"cast", &RandomGraph::castBothWays},
      {"reduce", &RandomGraph::reduce},
      {"broadcast", &RandomGraph::broadcast},
      {"reshape", &RandomGraph::reshapeSome},
      {"transpose", &RandomGraph::transposeSome},
      {"slice", &RandomGraph::slice},
      {"pad", &RandomGraph::pad},
      {"reverse", &RandomGraph::reverse},
      {"concat", &RandomGraph::concat},
      {"gather", &RandomGraph::gather},
      {"matmul", &RandomGraph::matmul},
      {"convolution", &RandomGraph::convolution},
      {"transposedConvolution", &RandomGraph::transposedConvolution},
      {"layerNorm", &RandomGraph::layerNorm},
      {"rmsNorm", &RandomGraph::rmsNorm},
      {"groupNorm", &RandomGraph::groupNorm},
      {"softmax", &RandomGraph::softmax},
  };
  return all;
}

std::vector<std::string> RandomGraph::operatorNames() {
  std::vector<std::string> names;
  for (const Entry &entry : entries())
    names.push_back(entry.name);
  return names;
}

Value RandomGraph::grow(int operators) {
  constexpr int64_t kLargest = 4096; // elements of one value: tests stay fast
  for (int i = 0; i < operators; ++i) {
    const auto &all = entries();
    Value made = (this->*all[pick(0, all.size() - 1)].make)();
    if (tensorType(made).getNumElements() <= kLargest)
      values.push_back(made);
  }
  // A different weight for every element, so that a gradient that lands at
  // the wrong place shows.
  Value total = constant({}, 0, 0);
  for (Value value : values) {
    Value weighed =
        builder.create<MulOp>(loc, bounded(value), constant(tensorType(value).getShape(), -1, 1));
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(value).getRank()));
    total =
        builder.create<AddOp>(loc, total, builder.create<ReduceSumOp>(loc, weighed, axes, false));
  }
  return total;
}

} // namespace diffc::randomgraph
