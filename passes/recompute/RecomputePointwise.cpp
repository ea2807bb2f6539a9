// Element-wise values over the peak are computed again. Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "dialects/train/IR/TrainDialect.h"
#include "passes/fusion/Clusters.h"
#include "passes/recompute/Passes.h"

#include <mlir/Interfaces/FunctionInterfaces.h>

#include <limits>

namespace diffc {
#define GEN_PASS_DEF_RECOMPUTEPOINTWISE
#include "passes/recompute/Passes.h.inc"
namespace {
using namespace mlir;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// What of a kernel's body makes one of its results, down to what is known.
struct Part {
  SmallVector<Operation *> ops;   ///< of the body, in order
  llvm::SetVector<Value> sources; ///< values of the block outside
  DenseMap<Value, Value> outside; ///< of the body -> source
};

/// One block with the steps at which its values are made and read. Views count
/// as what they are views of.
class Timeline {
public:
  explicit Timeline(Block &block) {
    for (Operation &op : block) {
      stepOf[&op] = static_cast<int64_t>(ops.size());
      ops.push_back(&op);
    }
    lives.assign(ops.size(), 0);
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        if (!isa<nn::ReshapeOp>(op))
          uses[nn::viewedValue(operand)].push_back(stepOf[&op]);
    for (BlockArgument argument : block.getArguments())
      add(argument, 0);
    for (Operation &op : block)
      if (isa<nn::KernelOp, nn::CallOp>(op))
        for (Value result : op.getResults())
          if (!isCommitted(result))
            add(result, stepOf[&op]);
    for (int64_t s = 0; s < static_cast<int64_t>(ops.size()); ++s)
      if (lives[s] > lives[peak])
        peak = s;
    if (auto commit = dyn_cast<train::CommitOp>(block.getTerminator()))
      for (Value state : commit.getStates())
        if (Operation *maker = nn::viewedValue(state).getDefiningOp();
            maker && !isa<train::ReadOp>(maker))
          firstUpdate = std::min(firstUpdate, stepOf[maker]);
  }

  int64_t peakStep() const { return peak; }
  int64_t peakBytes() const { return lives.empty() ? 0 : lives[peak]; }
  int64_t lastUse(Value value) const {
    int64_t last = -1;
    for (int64_t use : usesOf(value))
      last = std::max(last, use);
    return last;
  }
  /// The first use after the peak; kNever if there is none.
  int64_t useAfterPeak(Value value) const {
    int64_t next = kNever;
    for (int64_t use : usesOf(value))
      if (use > peak)
        next = std::min(next, use);
    return next;
  }
  int64_t step(Operation *op) const { return stepOf.lookup(op); }
  Operation *at(int64_t step) const { return ops[step]; }
  bool stateIsOldAt(int64_t step) const { return step < firstUpdate; }

private:
  /// New state is written in place, outside the arena.
  static bool isCommitted(Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto commit = dyn_cast<train::CommitOp>(user);
      return commit && llvm::is_contained(commit.getStates(), value);
    });
  }
  ArrayRef<int64_t> usesOf(Value value) const {
    auto found = uses.find(value);
    return found == uses.end() ? ArrayRef<int64_t>() : ArrayRef(found->second);
  }
  void add(Value value, int64_t from) {
    for (int64_t s = from, to = std::max(lastUse(value), from); s <= to; ++s)
      lives[s] += nn::byteSize(value.getType());
  }

  SmallVector<Operation *> ops; ///< by step
  DenseMap<Operation *, int64_t> stepOf;
  DenseMap<Value, SmallVector<int64_t>> uses;
  SmallVector<int64_t> lives;
  int64_t peak = 0, firstUpdate = kNever;
};

class Recompute {
public:
  explicit Recompute(Block &block) : block(block) {}

  /// Clones what is worth it at the present peak; false if nothing was.
  bool once() {
    Timeline time(block);
    SmallVector<Value> candidates;
    for (Operation &op : block)
      if (auto kernel = dyn_cast<nn::KernelOp>(op); kernel && time.step(&op) < time.peakStep())
        for (Value result : kernel->getResults())
          if (time.useAfterPeak(result) != kNever && !pinned.contains(result) &&
              nn::byteSize(result.getType()) * 512 >= time.peakBytes())
            candidates.push_back(result);
    llvm::stable_sort(candidates, [](Value a, Value b) {
      return nn::byteSize(a.getType()) > nn::byteSize(b.getType());
    });
    bool changed = false;
    for (Value value : candidates)
      if (!pinned.contains(value))
        changed |= tryValue(value, time);
    return changed;
  }

private:
  bool tryValue(Value value, const Timeline &time) {
    auto kernel = value.getDefiningOp<nn::KernelOp>();
    int64_t when = time.useAfterPeak(value), longer = 0;
    Part part;
    Value inside =
        kernel.getBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber());
    if (!collect(kernel, inside, value, when, time, part))
      return false;
    for (Value source : part.sources) {
      Value root = nn::viewedValue(source);
      Operation *maker = root.getDefiningOp();
      if (isa_and_nonnull<nn::ConstantOp>(maker))
        continue;
      if (isa_and_nonnull<train::ReadOp>(maker)) {
        if (!time.stateIsOldAt(when))
          return false;
        continue;
      }
      if (time.lastUse(root) < when)
        longer += nn::byteSize(root.getType());
    }
    if (longer * 4 > nn::byteSize(value.getType()))
      return false;
    cloneBefore(kernel, inside, value, when, time, part);
    return true;
  }

  /// Whether a value of the block is there at `when` anyway.
  static bool isThere(Value value, int64_t when, const Timeline &time) {
    return time.lastUse(nn::viewedValue(value)) >= when;
  }

  /// The body's operators that make `inside`, back to arguments and to other
  /// results that are kept anyway; false where one is not element-wise.
  bool collect(nn::KernelOp kernel, Value inside, Value wanted, int64_t when, const Timeline &time,
               Part &part) {
    DenseMap<Value, Value> kept;
    auto yield = kernel.getBlock().getTerminator();
    for (auto [yielded, result] : llvm::zip_equal(yield->getOperands(), kernel->getResults()))
      // A statistic of a row is small: rather keep it than its reduction.
      if (result != wanted && (isThere(result, when, time) || nn::byteSize(result.getType()) * 16 <=
                                                                  nn::byteSize(wanted.getType())))
        kept[yielded] = result;
    DenseSet<Value> visited;
    std::function<bool(Value)> need = [&](Value at) {
      if (!visited.insert(at).second)
        return true;
      Value source = kept.lookup(at);
      if (auto argument = dyn_cast<BlockArgument>(at))
        source = kernel->getOperand(argument.getArgNumber());
      if (source) {
        part.sources.insert(source);
        part.outside[at] = source;
        return true;
      }
      Operation *op = at.getDefiningOp();
      if (!isa<nn::PointwiseOpInterface, nn::BroadcastToOp, nn::ConstantOp>(op) &&
          !isReadThrough(op))
        return false;
      for (Value operand : op->getOperands())
        if (!need(operand))
          return false;
      part.ops.push_back(op);
      return true;
    };
    return need(inside) && !part.ops.empty();
  }

  void cloneBefore(nn::KernelOp kernel, Value inside, Value value, int64_t when,
                   const Timeline &time, const Part &part) {
    OpBuilder builder(time.at(when));
    auto clone = builder.create<nn::KernelOp>(kernel.getLoc(), TypeRange(value.getType()),
                                              kernel.getLabel(), part.sources.getArrayRef());
    created.insert(clone);
    Block &body = clone.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value source : part.sources) {
      BlockArgument argument = body.addArgument(source.getType(), source.getLoc());
      for (auto [at, outside] : part.outside)
        if (outside == source)
          mapping.map(at, argument);
      pinned.insert(nn::viewedValue(source));
    }
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    for (Operation *op : part.ops)
      inner.clone(*op, mapping);
    inner.create<nn::YieldOp>(kernel.getLoc(), mapping.lookup(inside));
    pinned.insert(clone.getResult(0));
    pinned.insert(value);
    // Readers from here on; of a view, a view of the new value.
    moveReaders(value, clone.getResult(0), when, time);
  }

  void moveReaders(Value from, Value to, int64_t when, const Timeline &time) {
    for (OpOperand &use : llvm::make_early_inc_range(from.getUses())) {
      Operation *user = use.getOwner();
      if (created.contains(user))
        continue;
      if (auto view = dyn_cast<nn::ReshapeOp>(user)) {
        OpBuilder builder(to.getContext());
        builder.setInsertionPointAfterValue(to);
        auto copy = cast<nn::ReshapeOp>(builder.clone(*view));
        copy->setOperand(0, to);
        created.insert(copy);
        moveReaders(view.getResult(), copy.getResult(), when, time);
        if (copy->use_empty())
          copy->erase();
        if (view->use_empty())
          view->erase();
      } else if (time.step(user) >= when) {
        use.set(to);
      }
    }
  }

  Block &block;
  DenseSet<Value> pinned;        ///< sources of clones, and what was cloned
  DenseSet<Operation *> created; ///< since the timeline was made
};

struct RecomputePointwise final : impl::RecomputePointwiseBase<RecomputePointwise> {
  void runOnOperation() override {
    getOperation()->walk([&](FunctionOpInterface function) {
      if (function.isExternal())
        return;
      for (Block &block : function.getFunctionBody()) {
        if (!llvm::any_of(block, [](Operation &op) { return isa<nn::KernelOp>(op); }))
          continue;
        Recompute recompute(block);
        while (recompute.once())
          ;
      }
    });
  }
};

} // namespace
} // namespace diffc
