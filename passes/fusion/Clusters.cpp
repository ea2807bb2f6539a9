#include "passes/fusion/Clusters.h"

#include "dialects/nn/IR/Builders.h"

using namespace mlir;

namespace diffc {

bool reductionOf(Operation *op, Value &input, ArrayRef<int64_t> &axes) {
  return TypeSwitch<Operation *, bool>(op)
      .Case<nn::ReduceSumOp, nn::ReduceMaxOp, nn::ReduceMinOp>([&](auto reduce) {
        input = reduce.getInput();
        axes = reduce.getAxes();
        return true;
      })
      .Default([](auto) { return false; });
}

bool staysOutside(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() || op->getDialect()->getNamespace() == "func" ||
         isa<nn::ReshapeOp, nn::ConstantOp, nn::KernelOp, nn::CallOp, nn::LibraryOpInterface>(op) ||
         (op->getNumOperands() == 0 && !isa<nn::IotaOp>(op));
}

bool isReadThrough(Operation *op) {
  if (isa<nn::SliceOp, nn::ReverseOp>(op))
    return true;
  // A transpose that keeps the last dimension reads whole rows all the same.
  auto transpose = dyn_cast<nn::TransposeOp>(op);
  return transpose && !transpose.getPermutation().empty() &&
         transpose.getPermutation().back() ==
             static_cast<int64_t>(transpose.getPermutation().size()) - 1;
}

static bool isElementwise(Operation *op) {
  return isa<nn::PointwiseOpInterface, nn::BroadcastToOp, nn::IotaOp>(op);
}

bool isLoopNest(Operation *op) {
  Value input;
  ArrayRef<int64_t> axes;
  return isElementwise(op) || reductionOf(op, input, axes) ||
         isa<nn::TransposeOp, nn::SliceOp, nn::ReverseOp>(op);
}

Clustering::Clustering(Block &block, bool fuse) {
  for (Operation &op : block) {
    nodes.push_back({&op});
    nodeOf[&op] = nodes.size() - 1;
    positions.push_back(order.size());
    order.push_back(nodes.size() - 1);
    if (!staysOutside(&op) && !(fuse && isReadThrough(&op)))
      place(&op, fuse);
  }
}

void Clustering::place(Operation *op, bool fuse) {
  std::string reasons;
  Value input;
  ArrayRef<int64_t> axes;
  bool joins = isElementwise(op) || reductionOf(op, input, axes);
  if (fuse && joins) {
    // Latest producer first: it is the one with most in common.
    SmallVector<Operation *> producers;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && clusterOf.count(producer))
        producers.push_back(producer);
    llvm::sort(producers, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
    for (Operation *producer : producers) {
      Cluster *cluster = clusterOf[producer];
      std::string reason;
      if (!fits(*cluster, op, reason)) {
        reasons += (reasons.empty() ? "" : "; ") + reason;
        continue;
      }
      SmallVector<size_t> between;
      if (!needsBetween(nodeOf.at(cluster->ops.front()), op, between)) {
        reasons += std::string(reasons.empty() ? "" : "; ") +
                   "another operator between them would depend on the kernel it feeds";
        continue;
      }
      moveUp(between, nodeOf.at(cluster->ops.front()));
      merge(op, nodeOf.at(cluster->ops.front()));
      join(*cluster, op);
      return;
    }
  }
  if (!reasons.empty())
    op->setAttr("nn.unfused", StringAttr::get(op->getContext(), reasons));
  auto cluster = std::make_unique<Cluster>();
  cluster->shape.assign(nn::tensorType(op->getResult(0)).getShape().begin(),
                        nn::tensorType(op->getResult(0)).getShape().end());
  all.push_back(std::move(cluster));
  join(*all.back(), op);
}

void Clustering::join(Cluster &cluster, Operation *op) {
  Value input;
  ArrayRef<int64_t> axes;
  if (reductionOf(op, input, axes)) {
    ArrayRef<int64_t> shape = nn::tensorType(input).getShape();
    cluster.shape.assign(shape.begin(), shape.end());
    cluster.axes.assign(axes.begin(), axes.end());
    cluster.reduces = true;
  }
  cluster.ops.push_back(op);
  clusterOf[op] = &cluster;
}

/// A reduced value with its axes kept as 1 can be used inside the kernel; one
/// whose axes are dropped leaves it.
static bool dropsAxes(Operation *op) {
  Value input;
  ArrayRef<int64_t> axes;
  return reductionOf(op, input, axes) &&
         nn::tensorType(op->getResult(0)).getRank() != nn::tensorType(input).getRank();
}

bool Clustering::fits(const Cluster &cluster, Operation *op, std::string &reason) const {
  // What a cluster of one special operator holds is never a loop nest.
  for (Operation *member : cluster.ops) {
    Value input;
    ArrayRef<int64_t> axes;
    if (!isElementwise(member) && !reductionOf(member, input, axes)) {
      reason = "the producer is " + member->getName().getStringRef().str();
      return false;
    }
  }
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (producer && clusterOf.lookup(producer) == &cluster && dropsAxes(producer)) {
      reason = "the producer drops the axes that it reduces";
      return false;
    }
  }
  Value input;
  ArrayRef<int64_t> axes;
  if (reductionOf(op, input, axes)) {
    if (nn::tensorType(input).getShape() != ArrayRef<int64_t>(cluster.shape)) {
      reason = "the reduction's input has another shape than the kernel's loops";
      return false;
    }
    if (cluster.reduces && axes != ArrayRef<int64_t>(cluster.axes)) {
      reason = "the kernel reduces over other axes";
      return false;
    }
    if (nn::elementCount(cluster.shape) == 0) {
      reason = "the loop nest is empty";
      return false;
    }
    // Values that a reduction makes must come in the loop nest's rank.
    return true;
  }
  ArrayRef<int64_t> shape = nn::tensorType(op->getResult(0)).getShape();
  if (shape == ArrayRef<int64_t>(cluster.shape))
    return true;
  if (cluster.reduces && shape.size() == cluster.shape.size()) {
    SmallVector<int64_t> row(cluster.shape);
    for (int64_t axis : cluster.axes)
      row[axis] = 1;
    if (shape == ArrayRef<int64_t>(row))
      return true;
  }
  reason = "its shape is not the kernel's";
  return false;
}

// Nodes stand in an order in which each comes after what it needs, so only those
// behind `target` can depend on it.
bool Clustering::needsBetween(size_t target, Operation *op,
                              SmallVectorImpl<size_t> &between) const {
  DenseSet<size_t> seen;
  SmallVector<size_t> stack;
  auto pushOperands = [&](Operation *at, bool first) {
    for (Value operand : at->getOperands()) {
      auto producer = nodeOf.find(operand.getDefiningOp());
      if (producer == nodeOf.end() || positions[producer->second] < positions[target] ||
          (first && producer->second == target))
        continue;
      if (seen.insert(producer->second).second)
        stack.push_back(producer->second);
    }
  };
  pushOperands(op, /*first=*/true);
  while (!stack.empty()) {
    size_t at = stack.pop_back_val();
    if (at == target)
      return false;
    between.push_back(at);
    for (Operation *member : nodes[at])
      pushOperands(member, /*first=*/false);
  }
  return true;
}

// What `between` needs is in it or stands before `target`; so it can move there.
void Clustering::moveUp(ArrayRef<size_t> between, size_t target) {
  if (between.empty())
    return;
  size_t begin = positions[target], end = begin;
  DenseSet<size_t> moved(between.begin(), between.end());
  for (size_t node : between)
    end = std::max(end, positions[node] + 1);
  std::stable_partition(order.begin() + begin, order.begin() + end,
                        [&](size_t node) { return moved.contains(node); });
  for (size_t at = begin; at < end; ++at)
    positions[order[at]] = at;
}

// The newest node, which nothing needs yet, becomes part of another.
void Clustering::merge(Operation *op, size_t target) {
  nodes[target].push_back(op);
  nodeOf[op] = target;
  nodes.pop_back();
  positions.pop_back();
  order.pop_back();
}

} // namespace diffc
