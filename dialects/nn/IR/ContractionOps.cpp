// Matmul, convolution and attention: types, derivatives, costs.
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/InferHelpers.h"

using namespace mlir;

namespace diffc::nn {

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

DIFFC_INFER(MatmulOp) {
  RankedTensorType a = tensorType(op.getLhs()), b = tensorType(op.getRhs());
  if (a.getRank() < 2 || b.getRank() < 2 || a.getElementType() != b.getElementType())
    return inferError(loc, "matmul needs two matrices of one element type, got ", a, " and ", b);
  int64_t ra = a.getRank(), rb = b.getRank();
  int64_t m = a.getDimSize(op.getTransposeA() ? ra - 1 : ra - 2);
  int64_t ka = a.getDimSize(op.getTransposeA() ? ra - 2 : ra - 1);
  int64_t kb = b.getDimSize(op.getTransposeB() ? rb - 1 : rb - 2);
  int64_t n = b.getDimSize(op.getTransposeB() ? rb - 2 : rb - 1);
  auto batch = broadcastShape(a.getShape().drop_back(2), b.getShape().drop_back(2));
  if (ka != kb || !batch)
    return inferError(loc, "matmul of ", a, " and ", b, ": inner extents ", ka, " and ", kb,
                      batch ? "" : ", leading dimensions do not broadcast");
  batch->append({m, n});
  return Type(a.clone(*batch));
}

int64_t MatmulOp::getFlops() {
  RankedTensorType a = tensorType(getLhs());
  int64_t k = a.getDimSize(a.getRank() - (getTransposeA() ? 2 : 1));
  return 2 * k * tensorType(getResult()).getNumElements();
}

// The library's bias runs along the columns.
bool MatmulOp::acceptsBiasOver(int64_t axis) {
  return axis == tensorType(getResult()).getRank() - 1;
}

namespace {
/// matmul(transpose(a), b)  ==>  matmul(a, b) {transpose_a flipped}; also b
struct AbsorbOperandTranspose final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatmulOp matmul, PatternRewriter &rewriter) const override {
    Value operands[] = {matmul.getLhs(), matmul.getRhs()};
    bool flags[] = {matmul.getTransposeA(), matmul.getTransposeB()};
    bool found = false;
    for (int i = 0; i < 2; ++i)
      if (auto transpose = operands[i].getDefiningOp<TransposeOp>();
          transpose && exchangesLastTwo(transpose)) {
        operands[i] = transpose.getInput();
        flags[i] = !flags[i];
        found = true;
      }
    if (!found)
      return rewriter.notifyMatchFailure(matmul, "no operand is transposed");
    rewriter.replaceOpWithNewOp<MatmulOp>(matmul, operands[0], operands[1], flags[0], flags[1]);
    return success();
  }
};

/// transpose(matmul(a, b))  ==>  matmul(b, a) with both flags exchanged and
/// flipped, where nothing else reads the product
struct AbsorbResultTranspose final : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp transpose, PatternRewriter &rewriter) const override {
    auto matmul = transpose.getInput().getDefiningOp<MatmulOp>();
    if (!matmul || !matmul->hasOneUse() || !exchangesLastTwo(transpose))
      return rewriter.notifyMatchFailure(transpose, "not the only reader of a product");
    rewriter.replaceOpWithNewOp<MatmulOp>(transpose, matmul.getRhs(), matmul.getLhs(),
                                          !matmul.getTransposeB(), !matmul.getTransposeA());
    return success();
  }
};
} // namespace

void MatmulOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<AbsorbOperandTranspose, AbsorbResultTranspose>(context);
}

// Rows of all leading dimensions as one matrix.
static Value flattenRows(OpBuilder &builder, Value value) {
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  return reshape(builder, value, {elementCount(shape.drop_back()), shape.back()});
}

LogicalResult MatmulOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                      ArrayRef<bool> needed, SmallVectorImpl<Value> &grads) {
  Location loc = getLoc();
  Value a = getLhs(), b = getRhs(), dy = resultGrads[0];
  bool ta = getTransposeA(), tb = getTransposeB();
  auto product = [&](Value x, Value y, bool tx, bool ty) -> Value {
    return builder.create<MatmulOp>(loc, x, y, tx, ty);
  };
  // y = A B with A = a or a^T: dA = dy B^T, dB = A^T dy; an operand that is
  // stored transposed gets its gradient transposed.
  Value da, db;
  if (needed[0])
    da = sumToShape(builder, ta ? product(b, dy, tb, true) : product(dy, b, false, !tb),
                    tensorType(a).getShape());
  if (needed[1]) {
    // One weight matrix for all leading dimensions: sum over them inside one
    // product instead of making a gradient per batch entry.
    if (tensorType(b).getRank() == 2 && tensorType(a).getRank() > 2 && !ta) {
      a = flattenRows(builder, a);
      dy = flattenRows(builder, dy);
    }
    db = sumToShape(builder, tb ? product(dy, a, true, ta) : product(a, dy, !ta, false),
                    tensorType(b).getShape());
  }
  grads.append({da, db});
  return success();
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

// Checks attributes; the output's spatial extents by x and w, or a failure.
template <typename Adaptor>
static FailureOr<SmallVector<int64_t>> outputExtents(std::optional<Location> loc, Adaptor op,
                                                     ArrayRef<int64_t> x, ArrayRef<int64_t> w) {
  int64_t spatial = static_cast<int64_t>(x.size()) - 2;
  if (spatial < 1 || spatial > 3 || w.size() != x.size())
    return inferError(loc, "convolution needs 1 to 3 spatial dimensions on both sides");
  size_t n = spatial;
  if (op.getStrides().size() != n || op.getPadsLow().size() != n || op.getPadsHigh().size() != n ||
      op.getDilations().size() != n)
    return inferError(loc, "convolution needs strides, pads and dilations per spatial dimension");
  int64_t groups = op.getGroups();
  if (x[1] != w[1] * groups || w[0] % groups)
    return inferError(loc, "convolution with ", groups, " groups: ", x[1],
                      " input channels do not fit a weight of [", w, "]");
  SmallVector<int64_t> extents;
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t reach = op.getDilations()[i] * (w[i + 2] - 1) + 1;
    int64_t padded = x[i + 2] + op.getPadsLow()[i] + op.getPadsHigh()[i];
    if (op.getStrides()[i] < 1 || op.getDilations()[i] < 1 || op.getPadsLow()[i] < 0 ||
        op.getPadsHigh()[i] < 0 || padded < reach)
      return inferError(loc, "convolution: the kernel reaches over ", reach,
                        " elements, the padded input has ", padded);
    extents.push_back((padded - reach) / op.getStrides()[i] + 1);
  }
  return extents;
}

template <typename Adaptor>
static FailureOr<SmallVector<int64_t>> outputShape(std::optional<Location> loc, Adaptor op,
                                                   ArrayRef<int64_t> x, ArrayRef<int64_t> w) {
  auto extents = outputExtents(loc, op, x, w);
  if (failed(extents))
    return failure();
  SmallVector<int64_t> shape{x[0], w[0]};
  shape.append(*extents);
  return shape;
}

DIFFC_INFER(ConvolutionOp) {
  RankedTensorType x = tensorType(op.getInput());
  auto shape = outputShape(loc, op, x.getShape(), tensorType(op.getWeight()).getShape());
  if (failed(shape))
    return failure();
  return Type(x.clone(*shape));
}

DIFFC_INFER(ConvolutionInputGradOp) {
  RankedTensorType dy = tensorType(op.getOutputGrad());
  auto shape = outputShape(loc, op, op.getInputShape(), tensorType(op.getWeight()).getShape());
  if (failed(shape))
    return failure();
  if (ArrayRef<int64_t>(*shape) != dy.getShape())
    return inferError(loc, "convolution_input_grad: ", dy, " is not the output of [",
                      op.getInputShape(), "]");
  return Type(dy.clone(op.getInputShape()));
}

DIFFC_INFER(ConvolutionWeightGradOp) {
  RankedTensorType dy = tensorType(op.getOutputGrad());
  auto shape = outputShape(loc, op, tensorType(op.getInput()).getShape(), op.getWeightShape());
  if (failed(shape))
    return failure();
  if (ArrayRef<int64_t>(*shape) != dy.getShape())
    return inferError(loc, "convolution_weight_grad: ", dy, " is not the output for [",
                      op.getWeightShape(), "]");
  return Type(dy.clone(op.getWeightShape()));
}

// Multiply-adds: every output element sums over one filter.
static int64_t convolutionFlops(RankedTensorType output, ArrayRef<int64_t> weight) {
  return 2 * output.getNumElements() * elementCount(weight.drop_front());
}
int64_t ConvolutionOp::getFlops() {
  return convolutionFlops(tensorType(getResult()), tensorType(getWeight()).getShape());
}
int64_t ConvolutionInputGradOp::getFlops() {
  return convolutionFlops(tensorType(getOutputGrad()), tensorType(getWeight()).getShape());
}
int64_t ConvolutionWeightGradOp::getFlops() {
  return convolutionFlops(tensorType(getOutputGrad()), getWeightShape());
}

// The library's bias runs over the channels; its backward calls take none.
bool ConvolutionOp::acceptsBiasOver(int64_t axis) { return axis == 1; }
bool ConvolutionInputGradOp::acceptsBiasOver(int64_t) { return false; }
bool ConvolutionWeightGradOp::acceptsBiasOver(int64_t) { return false; }

namespace {
/// The three convolutions on one set of attributes: each one's derivatives are
/// the other two.
template <typename Op> struct Convolutions {
  Op op;
  OpBuilder &builder;

  Value forward(Value x, Value w) {
    return builder.create<ConvolutionOp>(op.getLoc(), x, w, op.getStrides(), op.getPadsLow(),
                                         op.getPadsHigh(), op.getDilations(), op.getGroups());
  }
  Value inputGrad(Value dy, Value w, ArrayRef<int64_t> shape) {
    return builder.create<ConvolutionInputGradOp>(op.getLoc(), dy, w, op.getStrides(),
                                                  op.getPadsLow(), op.getPadsHigh(),
                                                  op.getDilations(), op.getGroups(), shape);
  }
  Value weightGrad(Value x, Value dy, ArrayRef<int64_t> shape) {
    return builder.create<ConvolutionWeightGradOp>(op.getLoc(), x, dy, op.getStrides(),
                                                   op.getPadsLow(), op.getPadsHigh(),
                                                   op.getDilations(), op.getGroups(), shape);
  }
};
} // namespace

LogicalResult ConvolutionOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                           ArrayRef<bool> needed, SmallVectorImpl<Value> &grads) {
  Convolutions<ConvolutionOp> conv{*this, builder};
  Value dy = resultGrads[0];
  grads.push_back(needed[0] ? conv.inputGrad(dy, getWeight(), tensorType(getInput()).getShape())
                            : Value());
  grads.push_back(needed[1] ? conv.weightGrad(getInput(), dy, tensorType(getWeight()).getShape())
                            : Value());
  return success();
}

LogicalResult ConvolutionInputGradOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                                    ArrayRef<bool> needed,
                                                    SmallVectorImpl<Value> &grads) {
  // The map dy -> dx is the transpose of x -> y.
  Convolutions<ConvolutionInputGradOp> conv{*this, builder};
  Value ddx = resultGrads[0];
  grads.push_back(needed[0] ? conv.forward(ddx, getWeight()) : Value());
  grads.push_back(needed[1]
                      ? conv.weightGrad(ddx, getOutputGrad(), tensorType(getWeight()).getShape())
                      : Value());
  return success();
}

LogicalResult ConvolutionWeightGradOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                                     ArrayRef<bool> needed,
                                                     SmallVectorImpl<Value> &grads) {
  Convolutions<ConvolutionWeightGradOp> conv{*this, builder};
  Value ddw = resultGrads[0];
  grads.push_back(needed[0]
                      ? conv.inputGrad(getOutputGrad(), ddw, tensorType(getInput()).getShape())
                      : Value());
  grads.push_back(needed[1] ? conv.forward(getInput(), ddw) : Value());
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

DIFFC_INFER(AttentionOp) {
  RankedTensorType q = tensorType(op.getQuery()), k = tensorType(op.getKey()),
                   v = tensorType(op.getValue());
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4)
    return inferError(loc, "attention needs [B, H, T, d] operands");
  auto qs = q.getShape(), ks = k.getShape(), vs = v.getShape();
  if (qs.take_front(2) != ks.take_front(2) || qs.take_front(2) != vs.take_front(2) ||
      qs[3] != ks[3] || ks[2] != vs[2])
    return inferError(loc, "attention of ", q, ", ", k, ", ", v, " does not fit together");
  if (op.getMask()) {
    SmallVector<int64_t> scores{qs[0], qs[1], qs[2], ks[2]};
    auto shape = broadcastShape(scores, tensorType(op.getMask()).getShape());
    if (!shape || *shape != scores)
      return inferError(loc, "attention mask ", op.getMask().getType(),
                        " does not broadcast to the scores");
  }
  return Type(q.clone({qs[0], qs[1], qs[2], vs[3]}));
}

int64_t AttentionOp::getFlops() {
  auto q = tensorType(getQuery()).getShape(), v = tensorType(getValue()).getShape();
  return 2 * q[0] * q[1] * q[2] * v[2] * (q[3] + v[3]);
}

SmallVector<Value> AttentionOp::decompose(OpBuilder &builder) {
  Location loc = getLoc();
  Type element = tensorType(getQuery()).getElementType();
  Value scores = builder.create<MatmulOp>(loc, getQuery(), getKey(), false, true);
  scores = builder.create<MulOp>(loc, scores,
                                 scalar(builder, loc, getScale().convertToDouble(), element));
  if (getMask())
    scores = builder.create<AddOp>(loc, scores, getMask());
  if (getCausal()) {
    ArrayRef<int64_t> shape = tensorType(scores).getShape();
    auto grid = RankedTensorType::get(shape.take_back(2), builder.getI64Type());
    Value row = builder.create<IotaOp>(loc, 0, grid), column = builder.create<IotaOp>(loc, 1, grid);
    Value hidden = builder.create<GreaterOp>(loc, column, row);
    Value never = scalar(builder, loc, -std::numeric_limits<double>::infinity(), element);
    scores = builder.create<SelectOp>(loc, hidden, never, scores);
  }
  Value weights = builder.create<SoftmaxOp>(loc, scores, 3);
  return {builder.create<MatmulOp>(loc, weights, getValue(), false, false)};
}

} // namespace diffc::nn
