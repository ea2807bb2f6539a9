// Which operators of a block go into one kernel.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

namespace diffc {

/// One future kernel: its operators in block order, and the loop nest that
/// they share.
struct Cluster {
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<int64_t> shape; ///< the loop nest
  llvm::SmallVector<int64_t> axes;  ///< that its reductions sum over
  bool reduces = false;
};

/// Partitions the operators of `block` that kernels compute. Each of them is in
/// exactly one cluster (with `fuse`, moves that are read through are in none:
/// who needs them written makes a kernel of what is left); merging a cluster into one operation
/// makes no cycle. With `fuse` false, every cluster holds one operator.
class Clustering {
public:
  Clustering(mlir::Block &block, bool fuse);

  llvm::ArrayRef<std::unique_ptr<Cluster>> clusters() const { return all; }
  Cluster *of(mlir::Operation *op) const { return clusterOf.lookup(op); }

private:
  void place(mlir::Operation *op, bool fuse);
  bool fits(const Cluster &cluster, mlir::Operation *op, std::string &reason) const;
  /// Collects the nodes behind `target` that `op` needs and that `target` is not
  /// one of; false where `target` is needed on the way: op cannot join it.
  bool needsBetween(size_t target, mlir::Operation *op,
                    llvm::SmallVectorImpl<size_t> &between) const;
  /// Puts those nodes in front of `target`.
  void moveUp(llvm::ArrayRef<size_t> between, size_t target);
  void merge(mlir::Operation *op, size_t target);
  void join(Cluster &cluster, mlir::Operation *op);

  llvm::SmallVector<std::unique_ptr<Cluster>> all;
  llvm::DenseMap<mlir::Operation *, Cluster *> clusterOf;

  // Every operator of the block so far, one node per cluster: the future
  // operations, in an order in which each comes after what it needs.
  std::vector<llvm::SmallVector<mlir::Operation *>> nodes;
  llvm::DenseMap<mlir::Operation *, size_t> nodeOf;
  std::vector<size_t> order;     ///< nodes
  std::vector<size_t> positions; ///< of nodes in `order`
};

/// True for an operator that stays outside kernels: views, constants, reads,
/// library calls, terminators.
bool staysOutside(mlir::Operation *op);

/// True for a move that its consumers' kernels read through instead of having
/// it written first.
bool isReadThrough(mlir::Operation *op);

/// True for an operator that a loop nest computes: element-wise ones,
/// reductions, and moves.
bool isLoopNest(mlir::Operation *op);

/// The input and axes of a reduction; false for other operators.
bool reductionOf(mlir::Operation *op, mlir::Value &input, llvm::ArrayRef<int64_t> &axes);

} // namespace diffc
