// What single operations can check of themselves. Labels as in the .td files.
#include "dialects/plan/IR/PlanDialect.h"

using namespace mlir;

namespace diffc::plan {

int64_t byteSize(ShapedType type) {
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (int64_t extent : type.getShape())
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes) || bytes > (int64_t{1} << 46))
      return -1;
  return bytes;
}

LogicalResult verifyStep(Operation *op) {
  auto step = cast<StepOpInterface>(op);
  if (step.getInputs().size() != step.getInputValues().size() ||
      step.getOutputs().size() != step.getOutputValues().size())
    return op->emitOpError("needs one value for each buffer"); // S2
  return success();
}

namespace {

int64_t bytesAt(ArrayAttr buffers, size_t index) {
  return cast<BufferAttr>(buffers[index]).getBytes();
}

/// Elements from the first to the last that a matrix reaches; -1: it cannot be.
int64_t reach(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset, last = 0;
  if (failed(getStridesAndOffset(type, strides, offset)) || offset != 0 || !type.hasStaticShape())
    return -1;
  for (auto [extent, stride] : llvm::zip(type.getShape(), strides)) {
    int64_t step;
    if (extent < 1 || stride < 0 || __builtin_mul_overflow(extent - 1, stride, &step) ||
        __builtin_add_overflow(last, step, &last) || last > (int64_t{1} << 46))
      return -1;
  }
  return last + 1;
}

/// The element types of plan.proto.
bool isPlanElement(Type type) {
  return type.isF64() || type.isF32() || type.isF16() || type.isBF16() ||
         type.isSignlessInteger(64) || type.isSignlessInteger(32) || type.isSignlessInteger(1);
}

/// A tensor has elements that a plan knows, and the size of its buffer.
LogicalResult verifyFills(Operation *op, ShapedType type, int64_t bytes, const Twine &what) {
  if (!isPlanElement(type.getElementType()))
    return op->emitOpError() << what << " has elements of type " << type.getElementType()
                             << ", which no plan has";
  if (byteSize(type) != bytes)
    return op->emitOpError() << what << " of type " << type << " does not fill a buffer of "
                             << bytes << " bytes";
  return success();
}

LogicalResult verifyCounts(StepOpInterface step, size_t inputs) {
  if (step.getInputs().size() != inputs || step.getOutputs().size() != 1)
    return step->emitOpError() << "needs " << inputs << " inputs and one output";
  return success();
}

} // namespace

LogicalResult LaunchOp::verify() {
  if (static_cast<int64_t>(getChunks()) < 1) // L3
    return emitOpError("needs at least one chunk");
  return success();
}

LogicalResult MatmulOp::verify() {
  if (failed(verifyCounts(*this, getBias() ? 3 : 2))) // M1
    return failure();
  Type element = getC().getElementType();
  if (!isa<FloatType>(element) || getA().getElementType() != element ||
      getB().getElementType() != element)
    return emitOpError("needs one float type for a, b and c"); // M2
  ArrayRef<int64_t> a = getA().getShape(), b = getB().getShape(), c = getC().getShape();
  size_t rank = c.size();
  if (rank < 2 || a.size() != rank || b.size() != rank || a[rank - 2] != c[rank - 2] ||
      b[rank - 1] != c[rank - 1] || a[rank - 1] != b[rank - 2])
    return emitOpError("shapes do not multiply"); // M3
  for (size_t i = 0; i + 2 < rank; ++i)
    if ((a[i] != 1 && a[i] != c[i]) || (b[i] != 1 && b[i] != c[i]))
      return emitOpError("batch extents do not go together"); // M3
  int64_t each = element.getIntOrFloatBitWidth() / 8;
  int64_t reachA = reach(getA()), reachB = reach(getB());
  if (reachA < 0 || reachA > bytesAt(getInputs(), 0) / each || reachB < 0 ||
      reachB > bytesAt(getInputs(), 1) / each)
    return emitOpError("a or b reaches beyond its buffer"); // M4
  if (!getC().getLayout().isIdentity())
    return emitOpError("c must be dense"); // M4
  if (getBias() && bytesAt(getInputs(), 2) != c[rank - 1] * each)
    return emitOpError("the bias does not fill its buffer");        // M4
  return verifyFills(*this, getC(), bytesAt(getOutputs(), 0), "c"); // M4
}

LogicalResult ConvolutionOp::verify() {
  ConvolutionKind kind = getKind();
  if (failed(verifyCounts(*this, getBias() ? 3 : 2))) // V1
    return failure();
  if (getBias() && kind != ConvolutionKind::Forward)
    return emitOpError("only a forward convolution has a bias"); // V1
  Type element = getX().getElementType();
  if (!isa<FloatType>(element) || getW().getElementType() != element ||
      getY().getElementType() != element)
    return emitOpError("needs one float type for x, w and y"); // V2
  ArrayRef<int64_t> x = getX().getShape(), w = getW().getShape(), y = getY().getShape();
  size_t spatial = getStrides().size();
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size() || y.size() != x.size() ||
      spatial + 2 != x.size() || getPadsLow().size() != spatial ||
      getPadsHigh().size() != spatial || getDilations().size() != spatial)
    return emitOpError("ranks do not go together"); // V2
  int64_t groups = static_cast<int64_t>(getGroups());
  if (groups < 1 || x[0] != y[0] || x[1] != w[1] * groups || w[0] != y[1] || w[0] % groups)
    return emitOpError("channels do not go together"); // V3
  for (size_t i = 0; i < spatial; ++i) {
    int64_t stride = getStrides()[i], window = getDilations()[i] * (w[i + 2] - 1) + 1;
    int64_t span = x[i + 2] + getPadsLow()[i] + getPadsHigh()[i] - window;
    if (stride < 1 || getDilations()[i] < 1 || getPadsLow()[i] < 0 || getPadsHigh()[i] < 0 ||
        span < 0 || span / stride + 1 != y[i + 2])
      return emitOpError() << "extents of spatial dimension " << i << " do not go together"; // V4
  }
  bool forward = kind == ConvolutionKind::Forward, inputGrad = kind == ConvolutionKind::InputGrad;
  RankedTensorType first = inputGrad ? getY() : getX();
  RankedTensorType second = forward || inputGrad ? getW() : getY();
  RankedTensorType result = forward ? getY() : inputGrad ? getX() : getW();
  int64_t each = element.getIntOrFloatBitWidth() / 8;
  if (getBias() && bytesAt(getInputs(), 2) != w[0] * each)
    return emitOpError("the bias does not fill its buffer"); // V5
  return failure(failed(verifyFills(*this, first, bytesAt(getInputs(), 0), "input 0")) ||
                 failed(verifyFills(*this, second, bytesAt(getInputs(), 1), "input 1")) ||
                 failed(verifyFills(*this, result, bytesAt(getOutputs(), 0), "output"))); // V5
}

LogicalResult DrawOp::verify() {
  if (failed(verifyCounts(*this, 3))) // D1
    return failure();
  for (size_t i = 0; i < 3; ++i)
    if (bytesAt(getInputs(), i) != 8)
      return emitOpError("seed, iteration and first sample are i64"); // D1
  auto samples = static_cast<int64_t>(getSamples()), elements = static_cast<int64_t>(getElements());
  int64_t bytes;
  if (samples < 0 || elements < 0 || __builtin_mul_overflow(samples, elements, &bytes) ||
      __builtin_mul_overflow(bytes, 4, &bytes) || bytes != bytesAt(getOutputs(), 0))
    return emitOpError("does not fill its buffer"); // D2
  if (!llvm::isUInt<32>(static_cast<uint64_t>(getStream())))
    return emitOpError("stream ") << static_cast<int64_t>(getStream())
                                  << " does not fit 32 bits"; // D3
  return success();
}

LogicalResult CopyOp::verify() {
  if (failed(verifyCounts(*this, 1)))
    return failure();
  if (bytesAt(getInputs(), 0) != bytesAt(getOutputs(), 0))
    return emitOpError("copies between buffers of different sizes"); // C1
  return success();
}

LogicalResult TargetOp::verify() {
  auto team = static_cast<int64_t>(getTeam());
  if (team < 1 || team > 1024) // T1
    return emitOpError() << "cannot have a team of " << team << " threads";
  return success();
}

LogicalResult SpaceOp::verify() {
  if (static_cast<int64_t>(getBytes()) < 0) // A1
    return emitOpError("has a negative size");
  if (getData() && getLifetime() != Lifetime::Program) // A2
    return emitOpError("has data, but does not live as long as the program");
  return success();
}

LogicalResult SlotOp::verify() { // O1
  return verifyFills(*this, getType(), getBuffer().getBytes(), "a slot");
}

LogicalResult InputOp::verify() {
  if (getScalar() && getType().getRank()) // I2
    return emitOpError("a scalar has rank 0");
  return verifyFills(*this, getType(), getBuffer().getBytes(), "an input"); // I1
}

LogicalResult OutputOp::verify() { // U1
  return verifyFills(*this, getType(), getBuffer().getBytes(), "an output");
}

} // namespace diffc::plan
