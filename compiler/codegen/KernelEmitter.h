// Kernels as functions of scalar and vector operations over raw pointers.
#pragma once

#include "compiler/codegen/KernelInfo.h"

#include <mlir/IR/BuiltinOps.h>

namespace diffc {

/// Appends `func.func @symbol(%buffers: !llvm.ptr, %chunk: i64)` to `module`:
/// the kernel's work for one chunk. Buffers are operands, then results.
void emitKernel(mlir::ModuleOp module, nn::KernelOp kernel, const KernelInfo &info,
                llvm::StringRef symbol);

} // namespace diffc
