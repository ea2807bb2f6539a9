// A kernel region as a loop nest: domain, accesses, reductions, partition.
//
// The one form that every target emits from. Pure analysis: no code is made.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <string>

namespace diffc {

/// A strided view of a buffer over the loop nest's domain: element
/// offset + sum(index[d] * strides[d]); stride 0 where it repeats.
struct Access {
  int64_t buffer = 0; ///< index among the kernel's buffers: operands, then results
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;

  bool operator==(const Access &other) const {
    return buffer == other.buffer && offset == other.offset && strides == other.strides;
  }
};

/// The kinds of kernel that are emitted differently.
enum class KernelKind {
  kLoops, ///< element-wise, reductions, strided copies
  kGather,
  kScatterAdd,
  kConcat,
  kPad,
};

/// What is known of a kernel before code is made.
///
/// Loops: `extents` is the domain after adjacent dimensions were collapsed;
/// `reduced[d]` marks the dimensions that every reduction of the body sums
/// over. The last dimension is the one that vectors run along ("lanes").
struct KernelInfo {
  KernelKind kind = KernelKind::kLoops;
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<bool> reduced;
  bool hasReduction = false;

  llvm::DenseMap<mlir::Value, Access> loads;  ///< values of the body that are read from memory
  llvm::DenseMap<mlir::Value, int64_t> iotas; ///< results of nn.iota: their domain dimension
  llvm::SmallVector<Access> stores;           ///< one per result
  /// Values of the body that change along a domain dimension, by dimension.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<bool>> varies;

  int64_t lanes = 1;      ///< elements of one vector
  int64_t blockLanes = 1; ///< lanes of one unit of work along the last dimension
  int64_t units = 1;      ///< units of work; a chunk is a range of them
  int64_t chunks = 1;     ///< the partition that the plan fixes

  /// Pairs (result, operand) that may share a buffer: same bytes, every read of
  /// an element comes before its write, by the same unit and vector.
  llvm::SmallVector<std::pair<int64_t, int64_t>> inPlace;
  int64_t bytesRead = 0, bytesWritten = 0; ///< of memory that is touched, each byte once
  int64_t flops = 0;

  bool lastReduced() const { return !reduced.empty() && reduced.back(); }
};

/// Analyses a kernel. Fails, saying why in `reason`, where the body is not one
/// loop nest.
mlir::FailureOr<KernelInfo> analyzeKernel(nn::KernelOp kernel, std::string &reason);

/// Text that is equal for two kernels exactly when their code may be shared.
std::string kernelSignature(nn::KernelOp kernel);

} // namespace diffc
