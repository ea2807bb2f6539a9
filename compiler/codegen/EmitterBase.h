// What the emitters of loop nests and of special kernels share: integers,
// loops, and memory accesses.
#pragma once

#include "compiler/codegen/KernelInfo.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/IR/BuiltinOps.h>

namespace diffc {

/// Emits into one function; offsets and loop counters are i64.
class EmitterBase {
public:
  EmitterBase(mlir::ModuleOp module, nn::KernelOp kernel, const KernelInfo &info,
              llvm::StringRef symbol)
      : b(module.getContext()), loc(b.getUnknownLoc()), kernel(kernel), info(info) {
    b.setInsertionPointToEnd(module.getBody());
    auto pointer = mlir::LLVM::LLVMPointerType::get(b.getContext());
    function =
        b.create<mlir::func::FuncOp>(loc, symbol, b.getFunctionType({pointer, b.getI64Type()}, {}));
    b.setInsertionPointToEnd(function.addEntryBlock());
    int64_t count = kernel.getNumOperands() + kernel.getNumResults();
    for (int64_t i = 0; i < count; ++i) {
      mlir::Value slot =
          b.create<mlir::LLVM::GEPOp>(loc, pointer, pointer, function.getArgument(0),
                                      llvm::ArrayRef<mlir::LLVM::GEPArg>{static_cast<int32_t>(i)});
      buffers.push_back(b.create<mlir::LLVM::LoadOp>(loc, pointer, slot));
    }
  }

protected:
  mlir::Value i64(int64_t value) { return b.create<mlir::arith::ConstantIntOp>(loc, value, 64); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::AddIOp>(loc, x, y); }
  mlir::Value mul(mlir::Value x, int64_t y) {
    if (y == 1)
      return x;
    return b.create<mlir::arith::MulIOp>(loc, x, i64(y));
  }
  mlir::Value div(mlir::Value x, int64_t y) {
    if (y == 1)
      return x;
    return b.create<mlir::arith::DivUIOp>(loc, x, i64(y));
  }
  mlir::Value rem(mlir::Value x, int64_t y) {
    if (y == 1)
      return i64(0);
    return b.create<mlir::arith::RemUIOp>(loc, x, i64(y));
  }
  mlir::Value minimum(mlir::Value x, int64_t y) {
    return b.create<mlir::arith::MinSIOp>(loc, x, i64(y));
  }

  mlir::Type elementType(int64_t buffer) {
    int64_t operands = kernel.getNumOperands();
    mlir::Type type = buffer < operands ? kernel.getOperand(buffer).getType()
                                        : kernel.getResult(buffer - operands).getType();
    return llvm::cast<mlir::RankedTensorType>(type).getElementType();
  }
  /// An element type as it lies in memory: i1 takes a byte.
  mlir::Type memoryType(mlir::Type element) {
    return element.isInteger(1) ? b.getI8Type() : element;
  }
  unsigned alignment(mlir::Type element) { return memoryType(element).getIntOrFloatBitWidth() / 8; }
  mlir::Value address(int64_t buffer, mlir::Value offset) {
    auto pointer = mlir::LLVM::LLVMPointerType::get(b.getContext());
    return b.create<mlir::LLVM::GEPOp>(loc, pointer, memoryType(elementType(buffer)),
                                       buffers[buffer], llvm::ArrayRef<mlir::LLVM::GEPArg>{offset});
  }
  mlir::Value loadScalar(int64_t buffer, mlir::Value offset) {
    mlir::Type element = elementType(buffer);
    mlir::Value value = b.create<mlir::LLVM::LoadOp>(loc, memoryType(element),
                                                     address(buffer, offset), alignment(element));
    return fromMemory(value, element);
  }
  void storeScalar(mlir::Value value, int64_t buffer, mlir::Value offset) {
    b.create<mlir::LLVM::StoreOp>(loc, toMemory(value), address(buffer, offset),
                                  alignment(elementType(buffer)));
  }
  mlir::Value fromMemory(mlir::Value value, mlir::Type element) {
    if (!element.isInteger(1))
      return value;
    mlir::Type narrow = element;
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(value.getType()))
      narrow = vector.clone(element);
    return b.create<mlir::arith::TruncIOp>(loc, narrow, value);
  }
  mlir::Value toMemory(mlir::Value value) {
    if (!mlir::getElementTypeOrSelf(value.getType()).isInteger(1))
      return value;
    mlir::Type wide = b.getI8Type();
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(value.getType()))
      wide = vector.clone(wide);
    return b.create<mlir::arith::ExtUIOp>(loc, wide, value);
  }

  /// The first unit of chunk `c`, and one past its last: units * c / chunks.
  mlir::Value chunkBound(mlir::Value chunk) { return div(mul(chunk, info.units), info.chunks); }
  /// Calls body(unit) for this chunk's units.
  void forUnits(llvm::function_ref<void(mlir::Value)> body) {
    mlir::Value chunk = function.getArgument(1);
    loop(chunkBound(chunk), chunkBound(add(chunk, i64(1))), 1, body);
  }
  void loop(mlir::Value from, mlir::Value to, int64_t step,
            llvm::function_ref<void(mlir::Value)> body) {
    auto op = b.create<mlir::scf::ForOp>(loc, from, to, i64(step));
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op.getBody()->getTerminator());
    body(op.getInductionVar());
  }

  mlir::OpBuilder b;
  mlir::Location loc;
  nn::KernelOp kernel;
  const KernelInfo &info;
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::Value> buffers;
};

/// Gather, scatter-add, concat and pad.
void emitSpecialKernel(mlir::ModuleOp module, nn::KernelOp kernel, const KernelInfo &info,
                       llvm::StringRef symbol);

} // namespace diffc
