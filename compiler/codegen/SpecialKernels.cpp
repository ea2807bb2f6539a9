// Gather, scatter-add, concat and pad.
#include "compiler/codegen/EmitterBase.h"

#include "dialects/nn/IR/Builders.h"

using namespace mlir;

namespace diffc {
namespace {

class SpecialEmitter : EmitterBase {
public:
  using EmitterBase::EmitterBase;

  void emit() {
    Operation *op = &kernel.getBlock().front();
    TypeSwitch<Operation *>(op)
        .Case<nn::GatherOp>([&](auto gather) { emitGather(gather); })
        .Case<nn::ScatterAddOp>([&](auto scatter) { emitScatterAdd(scatter); })
        .Case<nn::ConcatOp>([&](auto concat) { emitConcat(concat); })
        .Case<nn::PadOp>([&](auto pad) { emitPad(pad); });
    b.setInsertionPointToEnd(&function.getBody().back());
    b.create<func::ReturnOp>(loc);
  }

private:
  int64_t resultBuffer() { return kernel.getNumOperands(); }

  /// The kernel's operand that a value of the body is.
  int64_t bufferOf(Value value) { return cast<BlockArgument>(value).getArgNumber(); }

  /// A row number from an index: counted from the end where negative, and kept
  /// within the table (an index out of range must not write or read outside).
  Value rowAt(int64_t buffer, Value at, int64_t extent) {
    Value raw = loadScalar(buffer, at);
    if (raw.getType().getIntOrFloatBitWidth() < 64)
      raw = b.create<arith::ExtSIOp>(loc, b.getI64Type(), raw);
    Value negative = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, raw, i64(0));
    Value row = b.create<arith::SelectOp>(loc, negative, add(raw, i64(extent)), raw);
    row = b.create<arith::MaxSIOp>(loc, row, i64(0));
    return minimum(row, extent - 1);
  }

  void copyRow(int64_t from, Value fromOffset, int64_t to, Value toOffset, int64_t count) {
    loop(i64(0), i64(count), 1,
         [&](Value i) { storeScalar(loadScalar(from, add(fromOffset, i)), to, add(toOffset, i)); });
  }

  void emitGather(nn::GatherOp gather) {
    auto table = nn::tensorType(gather.getTable());
    int64_t axis = gather.getAxis(), extent = table.getDimSize(axis);
    int64_t inner = nn::elementCount(table.getShape().drop_front(axis + 1));
    int64_t rows = nn::tensorType(gather.getIndices()).getNumElements();
    forUnits([&](Value unit) {
      Value row = rowAt(bufferOf(gather.getIndices()), rem(unit, rows), extent);
      Value from = mul(add(mul(div(unit, rows), extent), row), inner);
      copyRow(bufferOf(gather.getTable()), from, resultBuffer(), mul(unit, inner), inner);
    });
  }

  /// Parallel over blocks of columns; rows are added in their order.
  void emitScatterAdd(nn::ScatterAddOp scatter) {
    auto result = nn::tensorType(scatter.getResult());
    int64_t axis = scatter.getAxis(), extent = scatter.getSize();
    int64_t inner = nn::elementCount(result.getShape().drop_front(axis + 1));
    int64_t rows = nn::tensorType(scatter.getIndices()).getNumElements();
    int64_t blocks = (inner + info.blockLanes - 1) / info.blockLanes;
    Type element = result.getElementType();
    forUnits([&](Value unit) {
      Value outer = div(unit, blocks), first = mul(rem(unit, blocks), info.blockLanes);
      Value end = minimum(add(first, i64(info.blockLanes)), inner);
      Value zero = b.create<arith::ConstantOp>(loc, b.getZeroAttr(element));
      Value base = mul(outer, extent * inner);
      loop(i64(0), i64(extent), 1, [&](Value row) {
        loop(first, end, 1, [&](Value i) {
          storeScalar(zero, resultBuffer(), add(add(base, mul(row, inner)), i));
        });
      });
      loop(i64(0), i64(rows), 1, [&](Value r) {
        Value row = rowAt(bufferOf(scatter.getIndices()), r, extent);
        Value to = add(base, b.create<arith::MulIOp>(loc, row, i64(inner)));
        Value from = mul(add(mul(outer, rows), r), inner);
        loop(first, end, 1, [&](Value i) {
          Value sum =
              b.create<arith::AddFOp>(loc, loadScalar(resultBuffer(), add(to, i)),
                                      loadScalar(bufferOf(scatter.getUpdates()), add(from, i)));
          storeScalar(sum, resultBuffer(), add(to, i));
        });
      });
    });
  }

  void emitConcat(nn::ConcatOp concat) {
    auto result = nn::tensorType(concat.getResult());
    int64_t axis = concat.getAxis();
    int64_t total = nn::elementCount(result.getShape().drop_front(axis));
    forUnits([&](Value unit) {
      int64_t start = 0;
      for (Value input : concat.getInputs()) {
        int64_t size = nn::elementCount(nn::tensorType(input).getShape().drop_front(axis));
        copyRow(bufferOf(input), mul(unit, size), resultBuffer(), add(mul(unit, total), i64(start)),
                size);
        start += size;
      }
    });
  }

  /// A unit is one row of the result: filled, then the input's elements that
  /// fall into it are copied.
  void emitPad(nn::PadOp pad) {
    auto from = nn::tensorType(pad.getInput()), to = nn::tensorType(pad.getResult());
    int64_t rank = to.getRank();
    Type element = to.getElementType();
    double fill = pad.getValue().convertToDouble();
    TypedAttr attr = isa<FloatType>(element)
                         ? TypedAttr(FloatAttr::get(element, fill))
                         : TypedAttr(IntegerAttr::get(element, static_cast<int64_t>(fill)));
    forUnits([&](Value unit) {
      Value value = b.create<arith::ConstantOp>(loc, attr);
      int64_t width = rank ? to.getDimSize(rank - 1) : 1;
      Value base = mul(unit, width);
      loop(i64(0), i64(width), 1,
           [&](Value i) { storeScalar(value, resultBuffer(), add(base, i)); });
      // Where the row lies in the input, and whether it lies there at all.
      Value inside, source = i64(0), rest = unit;
      int64_t stride = rank ? from.getDimSize(rank - 1) : 1;
      for (int64_t d = rank - 2; d >= 0; --d) {
        Value at = rem(rest, to.getDimSize(d));
        rest = div(rest, to.getDimSize(d));
        Value shifted = b.create<arith::SubIOp>(loc, at, i64(pad.getLow()[d]));
        int64_t step = pad.getInterior()[d] + 1;
        Value place = div(shifted, step);
        Value notBefore = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sge, shifted, i64(0));
        Value exact =
            b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, mul(place, step), shifted);
        Value notAfter =
            b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, place, i64(from.getDimSize(d)));
        for (Value condition : {notBefore, exact, notAfter})
          inside = inside ? b.create<arith::AndIOp>(loc, inside, condition) : condition;
        source = add(source, mul(place, stride));
        stride *= from.getDimSize(d);
      }
      if (!inside)
        inside = b.create<arith::ConstantIntOp>(loc, 1, 1);
      auto branch = b.create<scf::IfOp>(loc, inside, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.thenBlock()->getTerminator());
      int64_t low = rank ? pad.getLow()[rank - 1] : 0;
      int64_t step = rank ? pad.getInterior()[rank - 1] + 1 : 1;
      int64_t count = rank ? from.getDimSize(rank - 1) : 1;
      // The columns that stay inside the row: low + i * step in [0, width).
      int64_t first = low < 0 ? (-low + step - 1) / step : 0;
      int64_t end = std::min(count, low >= width ? 0 : (width - 1 - low) / step + 1);
      if (first < end)
        loop(i64(first), i64(end), 1, [&](Value i) {
          Value place = add(mul(i, step), i64(low));
          storeScalar(loadScalar(bufferOf(pad.getInput()), add(source, i)), resultBuffer(),
                      add(base, place));
        });
    });
  }
};

} // namespace

void emitSpecialKernel(ModuleOp module, nn::KernelOp kernel, const KernelInfo &info,
                       StringRef symbol) {
  SpecialEmitter(module, kernel, info, symbol).emit();
}

} // namespace diffc
