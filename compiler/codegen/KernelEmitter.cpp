// Loop nests: units of rows, phases of reductions, vectors along the last
// dimension.
#include "compiler/codegen/KernelEmitter.h"

#include "compiler/codegen/EmitterBase.h"
#include "dialects/nn/IR/Builders.h"

#include <mlir/Dialect/Math/IR/Math.h>

using namespace mlir;

namespace diffc {
namespace {

/// How a reduction starts and combines.
struct Reduction {
  double identity;
  vector::CombiningKind kind;
  Value input;
};

std::optional<Reduction> reductionOf(Operation *op) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Type element = nn::tensorType(op->getResult(0)).getElementType();
  using Kind = vector::CombiningKind;
  // A boolean's one bit would be its sign.
  auto kind = [&](Kind onFloat, Kind onInteger, Kind onBoolean) {
    return isa<FloatType>(element) ? onFloat : element.isInteger(1) ? onBoolean : onInteger;
  };
  if (auto sum = dyn_cast<nn::ReduceSumOp>(op))
    return Reduction{0, Kind::ADD, sum.getInput()};
  if (auto top = dyn_cast<nn::ReduceMaxOp>(op))
    return Reduction{-kInf, kind(Kind::MAXIMUMF, Kind::MAXSI, Kind::OR), top.getInput()};
  if (auto low = dyn_cast<nn::ReduceMinOp>(op))
    return Reduction{kInf, kind(Kind::MINIMUMF, Kind::MINSI, Kind::AND), low.getInput()};
  return std::nullopt;
}

class LoopEmitter : EmitterBase {
public:
  using EmitterBase::EmitterBase;

  void emit() {
    findPhases();
    forUnits([&](Value unit) { emitUnit(unit); });
    b.setInsertionPointToEnd(&function.getBody().back());
    b.create<func::ReturnOp>(loc);
  }

private:
  using Memo = DenseMap<Value, Value>;

  size_t rank() const { return info.extents.size(); }
  size_t last() const { return rank() - 1; }

  /// Changes inside a unit: along reduced dimensions, or, without reductions,
  /// along the lanes of its block.
  bool isInner(Value value) {
    const auto &along = info.varies.lookup(value);
    if (along.empty())
      return false;
    if (!info.hasReduction)
      return along[last()];
    for (size_t d = 0; d < rank(); ++d)
      if (along[d] && info.reduced[d])
        return true;
    return false;
  }

  /// Whether a result is written inside the unit's loops: it may be so even
  /// where its value does not change there (a broadcast).
  bool storedInside(const Access &store) {
    if (!info.hasReduction)
      return store.strides[last()] != 0;
    for (size_t d = 0; d < rank(); ++d)
      if (store.strides[d] && info.reduced[d])
        return true;
    return false;
  }

  /// A vector rather than a scalar: changes along the lanes.
  bool isVector(Value value) {
    const auto &along = info.varies.lookup(value);
    return !along.empty() && along[last()];
  }

  /// The phase whose loop can compute a value: after the reductions it needs.
  void findPhases() {
    for (Operation &op : kernel.getBlock().without_terminator()) {
      int64_t phase = 0;
      for (Value operand : op.getOperands())
        phase = std::max(phase, phases.lookup(operand));
      if (reductionOf(&op))
        ++phase;
      for (Value result : op.getResults())
        phases[result] = phase;
      lastPhase = std::max(lastPhase, phase);
    }
  }

  //===--- Units -----------------------------------------------------------===//

  void emitUnit(Value unit) {
    index.assign(rank(), Value());
    Value rest = unit;
    if (!info.lastReduced()) {
      int64_t blocks =
          std::max<int64_t>(1, (info.extents[last()] + info.blockLanes - 1) / info.blockLanes);
      laneStart = mul(rem(rest, blocks), info.blockLanes);
      rest = div(rest, blocks);
    } else {
      laneStart = i64(0);
    }
    for (int64_t d = static_cast<int64_t>(last()) - 1; d >= 0; --d)
      if (!info.reduced[d]) {
        index[d] = rem(rest, info.extents[d]);
        rest = div(rest, info.extents[d]);
      }
    rowMemo.clear();
    mask = Value();
    lane = Value();
    if (info.hasReduction && !info.lastReduced()) {
      // One vector of kept lanes per unit.
      lane = laneStart;
      if (info.extents[last()] % info.lanes)
        mask = tailMask(b.create<arith::SubIOp>(loc, i64(info.extents[last()]), lane));
    }
    for (int64_t phase = 0; phase <= lastPhase; ++phase) {
      emitRowValues(phase);
      emitPhase(phase);
    }
    emitRowStores();
  }

  Value tailMask(Value count) {
    Value size = b.create<arith::IndexCastOp>(loc, b.getIndexType(), count);
    return b.create<vector::CreateMaskOp>(loc, VectorType::get({info.lanes}, b.getI1Type()), size);
  }

  /// Values that do not change inside the unit and need no later reduction.
  void emitRowValues(int64_t phase) {
    for (BlockArgument argument : kernel.getBlock().getArguments())
      if (phase == 0 && info.loads.count(argument) && !isInner(argument))
        rowMemo[argument] = load(info.loads.lookup(argument), isVector(argument));
    for (Operation &op : kernel.getBlock().without_terminator()) {
      Value result = op.getResult(0);
      if (phases.lookup(result) != phase || isInner(result) || rowMemo.count(result) ||
          !info.varies.count(result))
        continue;
      if (!reductionOf(&op)) // reductions are put there by their phase's loop
        rowMemo[result] = compute(&op, rowMemo);
    }
  }

  //===--- Phases ----------------------------------------------------------===//

  /// One pass over the unit: reduces what can be reduced now, stores the
  /// values that are complete.
  void emitPhase(int64_t phase) {
    SmallVector<Operation *> reductions;
    for (Operation &op : kernel.getBlock().without_terminator())
      if (reductionOf(&op) && phases.lookup(op.getResult(0)) == phase + 1)
        reductions.push_back(&op);
    SmallVector<int64_t> stores;
    Operation *yield = kernel.getBlock().getTerminator();
    for (size_t i = 0; i < yield->getNumOperands(); ++i)
      // As soon as it is there, in the pass that has its operands at hand.
      // Kernels with reductions never share buffers, so no later read suffers.
      if (storedInside(info.stores[i]) && phase == phases.lookup(yield->getOperand(i)))
        stores.push_back(i);
    if (reductions.empty() && stores.empty())
      return;

    SmallVector<Value> accumulators;
    for (Operation *op : reductions)
      accumulators.push_back(identity(op));
    SmallVector<int64_t> outer;
    for (size_t d = 0; d < last(); ++d)
      if (info.reduced[d])
        outer.push_back(d);
    accumulators = emitOuterLoops(outer, accumulators, [&](ValueRange running) {
      return emitLaneLoop(running, reductions, stores);
    });
    for (auto [op, accumulator] : llvm::zip(reductions, accumulators))
      rowMemo[op->getResult(0)] = finish(op, accumulator);
  }

  /// Whether a reduction's running value is a vector.
  bool vectorAccumulator(Operation *op) {
    return info.lastReduced() || isVector(reductionOf(op)->input);
  }

  Value identity(Operation *op) {
    Reduction reduction = *reductionOf(op);
    Type element = nn::tensorType(op->getResult(0)).getElementType();
    TypedAttr attr;
    if (isa<FloatType>(element)) {
      attr = FloatAttr::get(element, reduction.identity);
    } else {
      unsigned bits = element.getIntOrFloatBitWidth();
      APInt value = reduction.kind == vector::CombiningKind::OR    ? APInt(bits, 0)
                    : reduction.kind == vector::CombiningKind::AND ? APInt(bits, 1)
                    : reduction.identity == 0                      ? APInt(bits, 0)
                    : reduction.identity < 0                       ? APInt::getSignedMinValue(bits)
                                                                   : APInt::getSignedMaxValue(bits);
      attr = IntegerAttr::get(element, value);
    }
    if (vectorAccumulator(op))
      attr = DenseElementsAttr::get(VectorType::get({info.lanes}, element), attr);
    return b.create<arith::ConstantOp>(loc, attr);
  }

  Value combine(vector::CombiningKind kind, Value x, Value y) {
    auto maximum = [&](arith::CmpFPredicate beats) -> Value {
      // NaN wins: the comparison is unordered-or-beats for y, and x stays only
      // where it is ordered and not beaten.
      Value takes = b.create<arith::CmpFOp>(loc, beats, y, x);
      Value chosen = b.create<arith::SelectOp>(loc, takes, y, x);
      Value poisoned = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, x, x);
      return b.create<arith::SelectOp>(loc, poisoned, x, chosen);
    };
    switch (kind) {
    case vector::CombiningKind::ADD:
      if (isa<FloatType>(getElementTypeOrSelf(x.getType())))
        return b.create<arith::AddFOp>(loc, x, y);
      return b.create<arith::AddIOp>(loc, x, y);
    case vector::CombiningKind::MAXIMUMF:
      return maximum(arith::CmpFPredicate::UGT);
    case vector::CombiningKind::MINIMUMF:
      return maximum(arith::CmpFPredicate::ULT);
    case vector::CombiningKind::MAXSI:
      return b.create<arith::MaxSIOp>(loc, x, y);
    case vector::CombiningKind::OR:
      return b.create<arith::OrIOp>(loc, x, y);
    case vector::CombiningKind::AND:
      return b.create<arith::AndIOp>(loc, x, y);
    default:
      return b.create<arith::MinSIOp>(loc, x, y);
    }
  }

  /// A reduction's value from its running one: lanes are combined where they
  /// belong to the reduced dimensions, in halves (a fixed tree).
  Value finish(Operation *op, Value accumulator) {
    if (!info.lastReduced())
      return accumulator;
    vector::CombiningKind kind = reductionOf(op)->kind;
    Value value = accumulator;
    for (int64_t width = info.lanes; width > 1; width /= 2) {
      SmallVector<int64_t> low, high;
      Value a = b.create<vector::ExtractStridedSliceOp>(
          loc, value, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{1});
      Value c = b.create<vector::ExtractStridedSliceOp>(loc, value, ArrayRef<int64_t>{width / 2},
                                                        ArrayRef<int64_t>{width / 2},
                                                        ArrayRef<int64_t>{1});
      value = combine(kind, a, c);
    }
    return b.create<vector::ExtractOp>(loc, value, ArrayRef<int64_t>{0});
  }

  SmallVector<Value> emitOuterLoops(ArrayRef<int64_t> dims, ValueRange accumulators,
                                    function_ref<SmallVector<Value>(ValueRange)> body) {
    if (dims.empty())
      return body(accumulators);
    int64_t dim = dims.front();
    auto op = b.create<scf::ForOp>(loc, i64(0), i64(info.extents[dim]), i64(1), accumulators);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(op.getBody());
    if (accumulators.empty())
      op.getBody()->getTerminator()->erase();
    index[dim] = op.getInductionVar();
    SmallVector<Value> next = emitOuterLoops(dims.drop_front(), op.getRegionIterArgs(), body);
    b.setInsertionPointToEnd(op.getBody());
    b.create<scf::YieldOp>(loc, next);
    return SmallVector<Value>(op.getResults());
  }

  /// The vectors of the unit: whole ones in a loop, then the masked rest.
  SmallVector<Value> emitLaneLoop(ValueRange accumulators, ArrayRef<Operation *> reductions,
                                  ArrayRef<int64_t> stores) {
    if (info.hasReduction && !info.lastReduced())
      return emitBody(accumulators, reductions, stores);
    int64_t extent = info.extents[last()], tail = extent % info.lanes;
    Value end =
        info.lastReduced() ? i64(extent) : minimum(add(laneStart, i64(info.blockLanes)), extent);
    // Whole vectors: up to the last multiple that fits.
    Value whole = tail ? minimum(end, extent - tail) : end;
    SmallVector<Value> running(accumulators);
    if (extent >= info.lanes) {
      auto op = b.create<scf::ForOp>(loc, laneStart, whole, i64(info.lanes), running);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(op.getBody());
      if (running.empty())
        op.getBody()->getTerminator()->erase();
      lane = op.getInductionVar();
      SmallVector<Value> next = emitBody(op.getRegionIterArgs(), reductions, stores);
      b.create<scf::YieldOp>(loc, next);
      running.assign(op.getResults().begin(), op.getResults().end());
    }
    if (!tail)
      return running;
    lane = i64(extent - tail);
    mask = tailMask(i64(tail));
    if (info.lastReduced()) {
      running = emitBody(running, reductions, stores);
    } else {
      Value reaches = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, end, i64(extent));
      auto branch = b.create<scf::IfOp>(loc, reaches, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.thenBlock()->getTerminator());
      emitBody({}, reductions, stores); // without reductions there is nothing to carry
    }
    mask = Value();
    return running;
  }

  SmallVector<Value> emitBody(ValueRange accumulators, ArrayRef<Operation *> reductions,
                              ArrayRef<int64_t> stores) {
    Memo memo;
    SmallVector<Value> next;
    for (auto [op, accumulator] : llvm::zip(reductions, accumulators)) {
      Reduction reduction = *reductionOf(op);
      Value input = valueOf(reduction.input, memo);
      if (isa<VectorType>(accumulator.getType()))
        input = widen(input);
      Value combined = combine(reduction.kind, accumulator, input);
      if (mask && info.lastReduced()) // lanes past the end do not count
        combined = b.create<arith::SelectOp>(loc, mask, combined, accumulator);
      next.push_back(combined);
    }
    // All of them first: a result may take the place of an operand that only
    // another one reads.
    Operation *yield = kernel.getBlock().getTerminator();
    SmallVector<Value> results;
    for (int64_t i : stores)
      results.push_back(valueOf(yield->getOperand(i), memo));
    for (auto [i, result] : llvm::zip_equal(stores, results))
      store(result, info.stores[i]);
    return next;
  }

  /// Results that do not change inside the unit.
  void emitRowStores() {
    Operation *yield = kernel.getBlock().getTerminator();
    for (auto [i, value] : llvm::enumerate(yield->getOperands()))
      if (!storedInside(info.stores[i]))
        store(valueOf(value, rowMemo), info.stores[i]);
  }

  //===--- Values ----------------------------------------------------------===//

  Value valueOf(Value value, Memo &memo) {
    if (Value known = rowMemo.lookup(value))
      return known;
    if (Value known = memo.lookup(value))
      return known;
    Value made;
    if (info.loads.count(value))
      made = load(info.loads.lookup(value), isVector(value));
    else
      made = compute(value.getDefiningOp(), memo);
    memo[value] = made;
    return made;
  }

  Value widen(Value value) {
    if (isa<VectorType>(value.getType()))
      return value;
    return b.create<vector::BroadcastOp>(loc, VectorType::get({info.lanes}, value.getType()),
                                         value);
  }

  Value compute(Operation *op, Memo &memo) {
    Value result = op->getResult(0);
    Type element = nn::tensorType(result).getElementType();
    if (info.loads.count(result))
      return load(info.loads.lookup(result), isVector(result));
    if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      auto dense = cast<DenseElementsAttr>(constant.getValue());
      return b.create<arith::ConstantOp>(loc, cast<TypedAttr>(dense.getSplatValue<Attribute>()));
    }
    if (auto iota = dyn_cast<nn::IotaOp>(op))
      return iotaValue(info.iotas.lookup(result), element);
    if (isa<nn::BroadcastToOp>(op))
      return valueOf(op->getOperand(0), memo);
    SmallVector<Value> operands;
    bool anyVector = false;
    for (Value operand : op->getOperands()) {
      operands.push_back(valueOf(operand, memo));
      anyVector |= isa<VectorType>(operands.back().getType());
    }
    if (anyVector)
      for (Value &operand : operands)
        operand = widen(operand);
    return cast<nn::PointwiseOpInterface>(op).emitPointwise(b, operands);
  }

  Value iotaValue(int64_t dim, Type element) {
    if (dim != static_cast<int64_t>(last())) {
      Value at = index[dim] ? index[dim] : i64(0);
      return fromInteger(at, element);
    }
    SmallVector<int64_t> steps(llvm::to_vector(llvm::seq<int64_t>(0, info.lanes)));
    auto type = VectorType::get({info.lanes}, b.getI64Type());
    Value offsets =
        b.create<arith::ConstantOp>(loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
    Value at = b.create<arith::AddIOp>(loc, widen(lane ? lane : laneStart), offsets);
    return fromInteger(at, element);
  }

  Value fromInteger(Value value, Type element) {
    Type type = element;
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      type = vector.clone(element);
    if (isa<FloatType>(element))
      return b.create<arith::SIToFPOp>(loc, type, value);
    if (element.getIntOrFloatBitWidth() < 64)
      return b.create<arith::TruncIOp>(loc, type, value);
    return value;
  }

  //===--- Memory ----------------------------------------------------------===//

  Value offsetOf(const Access &access) {
    Value offset = i64(access.offset);
    for (size_t d = 0; d < last(); ++d)
      if (access.strides[d] && index[d])
        offset = add(offset, mul(index[d], access.strides[d]));
    if (access.strides[last()])
      offset = add(offset, mul(lane ? lane : laneStart, access.strides[last()]));
    return offset;
  }

  Value load(const Access &access, bool vector) {
    Value offset = offsetOf(access);
    if (!vector)
      return loadScalar(access.buffer, offset);
    Type element = elementType(access.buffer), memory = memoryType(element);
    auto type = VectorType::get({info.lanes}, memory);
    Value value;
    if (access.strides[last()] == 1) {
      Value from = address(access.buffer, offset);
      if (mask)
        value = b.create<LLVM::MaskedLoadOp>(loc, type, from, mask, ValueRange{zeroOf(type)},
                                             alignment(element));
      else
        value = b.create<LLVM::LoadOp>(loc, type, from, alignment(element));
    } else {
      // Lanes apart: one pointer each.
      SmallVector<int64_t> steps;
      for (int64_t i = 0; i < info.lanes; ++i)
        steps.push_back(i * access.strides[last()]);
      auto offsets = VectorType::get({info.lanes}, b.getI64Type());
      Value apart = b.create<arith::ConstantOp>(
          loc, DenseElementsAttr::get(offsets, ArrayRef<int64_t>(steps)));
      auto pointer = LLVM::LLVMPointerType::get(b.getContext());
      Value base = address(access.buffer, offset);
      Value pointers =
          b.create<LLVM::GEPOp>(loc, LLVM::LLVMFixedVectorType::get(pointer, info.lanes), memory,
                                base, ArrayRef<LLVM::GEPArg>{apart});
      Value all =
          mask ? mask
               : b.create<arith::ConstantOp>(
                     loc,
                     DenseElementsAttr::get(VectorType::get({info.lanes}, b.getI1Type()), true));
      value = b.create<LLVM::masked_gather>(loc, type, pointers, all, ValueRange{zeroOf(type)},
                                            alignment(element));
    }
    return fromMemory(value, element);
  }

  Value zeroOf(VectorType type) { return b.create<arith::ConstantOp>(loc, b.getZeroAttr(type)); }

  void store(Value value, const Access &access) {
    Value offset = offsetOf(access);
    Type element = elementType(access.buffer);
    bool vector = access.strides[last()] != 0;
    if (!vector) {
      storeScalar(value, access.buffer, offset);
      return;
    }
    value = toMemory(widen(value));
    Value to = address(access.buffer, offset);
    // Results are dense, so lanes are neighbours, or the only ones of a row.
    if (mask)
      b.create<LLVM::MaskedStoreOp>(loc, value, to, mask, alignment(element));
    else
      b.create<LLVM::StoreOp>(loc, value, to, alignment(element));
  }

  DenseMap<Value, int64_t> phases;
  int64_t lastPhase = 0;
  SmallVector<Value> index; ///< loop counters by dimension; null where not yet known
  Value lane, laneStart, mask;
  Memo rowMemo;
};

} // namespace

void emitKernel(ModuleOp module, nn::KernelOp kernel, const KernelInfo &info, StringRef symbol) {
  if (info.kind == KernelKind::kLoops)
    LoopEmitter(module, kernel, info, symbol).emit();
  else
    emitSpecialKernel(module, kernel, info, symbol);
}

} // namespace diffc
