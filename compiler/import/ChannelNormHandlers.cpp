// Import of normalisations by channel statistics and by neighbouring channels.
#include "compiler/import/Spatial.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

bool isTraining(NodeImport &in) {
  if (in.opset >= 14)
    return in.integer("training_mode", 0) != 0;
  if (in.opset < 7)
    return in.integer("is_test", 0) == 0;
  // Until 13 the outputs say it.
  for (int i = 1; i < in.node.output_size(); ++i)
    if (!in.node.output(i).empty())
      return true;
  return false;
}

Value toType(NodeImport &in, Value x, Type element) {
  return tensorType(x).getElementType() == element ? x : make<CastOp>(in, x, element);
}

/// (x - mean) / sqrt(var + epsilon) * scale + bias. Inference takes mean and
/// variance as given, training from the batch, and returns how they move on.
Outcome batchNorm(NodeImport &in) {
  RankedTensorType type = in.type(0);
  int64_t rank = type.getRank();
  if (rank < 2)
    return in.fail("needs [batch, channels, ...]");
  // spatial = 0 (before 9): statistics for every element of a sample.
  bool spatial = in.opset >= 9 || in.integer("spatial", 1) != 0;
  SmallVector<int64_t> kept(rank, 1), axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i > 0 && (i == 1 || !spatial))
      kept[i] = type.getDimSize(i);
    else
      axes.push_back(i);
  Type widest = type.getElementType();
  for (size_t i = 0; i < 5; ++i) {
    if (in.type(i).getElementTypeBitWidth() > widest.getIntOrFloatBitWidth())
      widest = in.type(i).getElementType();
    if (!isa<FloatType>(in.type(i).getElementType()))
      return in.fail("normalises floats only");
    if (i > 0 && in.type(i).getNumElements() != elementCount(kept))
      return in.fail("input " + std::to_string(i) + " has " +
                     std::to_string(in.type(i).getNumElements()) + " elements, not " +
                     std::to_string(elementCount(kept)));
  }
  auto parameter = [&](size_t i) {
    return nn::reshape(in.builder, toType(in, in.operand(i), widest), kept);
  };
  auto number = [&](double value) { return scalar(in.builder, in.loc, value, widest); };
  Value x = toType(in, in.operand(0), widest), mean = parameter(3), variance = parameter(4);
  bool training = isTraining(in);
  NodeImport::Values moved;
  if (training) {
    if (type.getNumElements() == 0)
      return in.fail("has no batch to take statistics of");
    Value now = make<ReduceMeanOp>(in, x, axes, true);
    Value distance = make<SubOp>(in, x, now);
    Value spread = make<ReduceMeanOp>(in, make<MulOp>(in, distance, distance), axes, true);
    double momentum = in.real("momentum", 0.9);
    for (auto [i, old, fresh] : {std::tuple(3, mean, now), std::tuple(4, variance, spread)}) {
      Value sum = make<AddOp>(in, make<MulOp>(in, old, number(momentum)),
                              make<MulOp>(in, fresh, number(1 - momentum)));
      moved.push_back(nn::reshape(in.builder, toType(in, sum, in.type(i).getElementType()),
                                  in.type(i).getShape()));
    }
    mean = now, variance = spread;
  }
  Value scale =
      make<MulOp>(in, parameter(1),
                  make<RsqrtOp>(in, make<AddOp>(in, variance, number(in.real("epsilon", 1e-5)))));
  Value y = make<AddOp>(in, make<MulOp>(in, make<SubOp>(in, x, mean), scale), parameter(2));
  NodeImport::Values results{toType(in, y, type.getElementType())};
  results.append(moved);
  if (training && in.opset < 14) // saved statistics: those of the batch
    for (auto [i, value] : {std::pair(3, mean), std::pair(4, variance)})
      results.push_back(nn::reshape(in.builder, toType(in, value, in.type(i).getElementType()),
                                    in.type(i).getShape()));
  return results;
}

/// x / (bias + alpha / size * sum of squares over `size` channels around)^beta.
Outcome localResponse(NodeImport &in) {
  int64_t size = in.integer("size", 0);
  if (in.type(0).getRank() < 2 || !isa<FloatType>(in.type(0).getElementType()))
    return in.fail("needs floats [batch, channels, ...]");
  if (size < 1 || size > (1 << 20))
    return in.fail("size is " + std::to_string(size));
  int64_t channels = in.type(0).getDimSize(1);
  // Neighbours that no channel has are no terms of the sum.
  int64_t before = std::min((size - 1) / 2, channels - 1), after = std::min(size / 2, channels - 1);
  Value x = in.operand(0), square = make<MulOp>(in, x, x), sum;
  Value framed = surround(in, square, 1, {before}, {after}, 0);
  for (int64_t j = 0; j <= before + after; ++j) {
    Value part = sliceOf(in, framed, 1, j, channels);
    sum = sum ? make<AddOp>(in, sum, part) : part;
  }
  auto number = [&](double value) {
    return scalar(in.builder, in.loc, value, in.type(0).getElementType());
  };
  double alpha = in.real("alpha", 1e-4), beta = in.real("beta", 0.75);
  Value base = make<AddOp>(in, number(in.real("bias", 1)),
                           make<MulOp>(in, number(alpha / static_cast<double>(size)), sum));
  return in.build<MulOp>(x, make<PowOp>(in, base, number(-beta)));
}

/// (x - mean) / (sqrt(variance) + 1e-9) over axes. Equal elements give 0, and no
/// gradient: the root has none there.
Outcome meanVariance(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  if (!isa<FloatType>(in.type(0).getElementType()))
    return in.fail("normalises floats only");
  SmallVector<int64_t> given = in.has("axes") ? in.integers("axes") : SmallVector<int64_t>{0, 2, 3};
  SmallVector<int64_t> axes;
  for (int64_t axis : given) {
    auto at = NodeImport::wrapAxis(axis, rank);
    if (!at || llvm::is_contained(axes, *at))
      return in.fail("axis " + std::to_string(axis) +
                     (at ? " is given twice" : " is out of range"));
    if (in.type(0).getDimSize(*at) == 0)
      return in.fail("dimension " + std::to_string(*at) + " is empty");
    axes.push_back(*at);
  }
  llvm::sort(axes);
  auto number = [&](double value) {
    return scalar(in.builder, in.loc, value, in.type(0).getElementType());
  };
  Value x = in.operand(0);
  Value distance = make<SubOp>(in, x, make<ReduceMeanOp>(in, x, axes, true));
  Value variance = make<ReduceMeanOp>(in, make<MulOp>(in, distance, distance), axes, true);
  Value equal = make<EqualOp>(in, variance, number(0));
  Value root = make<SqrtOp>(in, make<SelectOp>(in, equal, number(1), variance));
  return in.build<DivOp>(distance, make<AddOp>(in, root, number(1e-9)));
}

} // namespace

void addChannelNormHandlers(HandlerTable &t) {
  t["BatchNormalization"] = {batchNorm, 1, 5};
  t["LRN"] = {localResponse};
  t["MeanVarianceNormalization"] = {meanVariance, 9};
}

} // namespace diffc
