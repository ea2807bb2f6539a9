// Gathers operators into kernels and library calls. Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "passes/fusion/Clusters.h"
#include "passes/fusion/Passes.h"

#include <mlir/Analysis/TopologicalSortUtils.h>
#include <mlir/Interfaces/FunctionInterfaces.h>

#include <set>

namespace diffc {
#define GEN_PASS_DEF_FUSEKERNELS
#include "passes/fusion/Passes.h.inc"
namespace {
using namespace mlir;

bool isSplatConstant(Operation *op) {
  auto constant = dyn_cast_or_null<nn::ConstantOp>(op);
  if (!constant)
    return false;
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  return dense && dense.isSplat();
}

/// "reduce_sum+mul" for the operators' names, each once, the last three.
std::string labelOf(ArrayRef<Operation *> ops) {
  SmallVector<std::string> names;
  for (Operation *op : ops)
    if (std::string name = op->getName().stripDialect().str(); !llvm::is_contained(names, name))
      names.push_back(name);
  std::string label;
  for (const std::string &name : ArrayRef(names).take_back(3))
    label += (label.empty() ? "" : "+") + name;
  return label;
}

/// Builds a kernel from `ops`: clones them inside, with splat constants and
/// read-through moves, and replaces what is used outside.
nn::KernelOp buildKernel(OpBuilder &builder, ArrayRef<Operation *> ops, StringRef label) {
  DenseSet<Operation *> inside(ops.begin(), ops.end());
  // Only loop nests compute with constants and read through moves; the other
  // kernels and the calls take memory as it is.
  bool isLoops = isLoopNest(ops.front());
  SmallVector<Operation *> pulled; // cloned in, but left in place
  llvm::SetVector<Value> inputs;
  DenseSet<Operation *> visited;
  std::function<void(Value)> need = [&](Value value) {
    Operation *producer = value.getDefiningOp();
    if (producer && inside.count(producer))
      return;
    bool pull = isLoops && producer && (isSplatConstant(producer) || isReadThrough(producer));
    if (!pull) {
      inputs.insert(value);
      return;
    }
    if (!visited.insert(producer).second)
      return;
    for (Value operand : producer->getOperands())
      need(operand);
    pulled.push_back(producer);
  };
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      need(operand);

  SmallVector<Value> outputs;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.count(user); }))
        outputs.push_back(result);
  SmallVector<Type> types;
  SmallVector<Location> locations;
  for (Value output : outputs)
    types.push_back(output.getType());
  for (Operation *op : ops)
    if (!llvm::is_contained(locations, op->getLoc()))
      locations.push_back(op->getLoc());
  Location loc = builder.getFusedLoc(locations);
  auto region = builder.create<nn::KernelOp>(loc, types, label, inputs.getArrayRef());
  Block &block = region.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, block.addArgument(input.getType(), input.getLoc()));
  OpBuilder body = OpBuilder::atBlockEnd(&block);
  for (Operation *op : pulled)
    body.clone(*op, mapping);
  std::string reasons;
  for (Operation *op : ops) {
    Operation *copy = body.clone(*op, mapping);
    if (auto reason = dyn_cast_or_null<StringAttr>(copy->removeAttr("nn.unfused")))
      reasons += (reasons.empty() ? "" : "; ") + reason.str();
  }
  if (!reasons.empty())
    region->setAttr("nn.unfused", builder.getStringAttr(reasons));
  SmallVector<Value> yields;
  for (Value output : outputs)
    yields.push_back(mapping.lookup(output));
  body.create<nn::YieldOp>(loc, yields);
  for (auto [output, result] : llvm::zip_equal(outputs, region->getResults()))
    output.replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  return region;
}

/// Builds a call from a library operator and, where there is one, the bias that
/// is added to its result. Operands keep their order, and come twice where they
/// are used twice: the library knows them by position.
void buildCall(OpBuilder &builder, nn::LibraryOpInterface main, nn::AddOp bias) {
  SmallVector<Value> inputs(main->getOperands());
  Value result = main->getResult(0);
  if (bias)
    inputs.push_back(bias.getLhs() == result ? bias.getRhs() : bias.getLhs());
  Operation *last = bias ? bias.getOperation() : main.getOperation();
  Location loc = bias ? builder.getFusedLoc({main.getLoc(), bias.getLoc()}) : main.getLoc();
  auto call = builder.create<nn::CallOp>(loc, last->getResultTypes(),
                                         main->getName().stripDialect(), inputs);
  Block &block = call.getBody().emplaceBlock();
  for (Value input : inputs)
    block.addArgument(input.getType(), input.getLoc());
  OpBuilder body = OpBuilder::atBlockEnd(&block);
  Operation *copy = body.clone(*main);
  copy->setOperands(block.getArguments().take_front(main->getNumOperands()));
  Value value = copy->getResult(0);
  if (bias)
    value = body.create<nn::AddOp>(bias.getLoc(), value, block.getArguments().back());
  body.create<nn::YieldOp>(loc, value);
  last->getResult(0).replaceAllUsesWith(call.getResult(0));
  if (bias)
    bias.erase();
  main.erase();
}

/// The addition of a bias to a library call's result that nothing else reads.
nn::AddOp biasOf(nn::LibraryOpInterface call) {
  Value result = call->getResult(0);
  if (!result.hasOneUse())
    return {};
  auto addition = dyn_cast<nn::AddOp>(*result.user_begin());
  if (!addition || addition.getType() != result.getType())
    return {};
  Value bias = addition.getLhs() == result ? addition.getRhs() : addition.getLhs();
  if (bias == result)
    return {};
  ArrayRef<int64_t> shape = nn::tensorType(bias).getShape();
  ArrayRef<int64_t> full = nn::tensorType(result).getShape();
  // Exactly one dimension is not 1: the one that the bias runs over.
  int64_t axis = -1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) {
      if (axis >= 0)
        return {};
      axis = full.size() - shape.size() + i;
    }
  if (axis < 0 || !call.acceptsBiasOver(axis) || shape.size() > full.size() ||
      nn::tensorType(bias).getNumElements() != full[axis])
    return {};
  // The bias must be there before the call.
  Operation *maker = bias.getDefiningOp();
  if (maker && maker->getBlock() == call->getBlock() && !maker->isBeforeInBlock(call))
    return {};
  return addition;
}

struct FuseKernels final : impl::FuseKernelsBase<FuseKernels> {
  using FuseKernelsBase::FuseKernelsBase;

  void runOnOperation() override {
    auto result = getOperation()->walk([&](FunctionOpInterface function) {
      if (function.isExternal() || function->hasTrait<OpTrait::SymbolTable>())
        return WalkResult::advance();
      // A model's own graph is a source of entries, not a program.
      if (function->getParentOp() && function->getParentOp()->hasTrait<OpTrait::SymbolTable>() &&
          !isa<ModuleOp>(function->getParentOp()))
        return WalkResult::advance();
      for (Block &block : function.getFunctionBody())
        if (failed(fuseBlock(block)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult fuseBlock(Block &block) {
    OpBuilder builder(&getContext());
    // Library calls first: their epilogues leave the kernels' reach.
    SmallVector<nn::LibraryOpInterface> calls;
    for (Operation &op : block)
      if (auto call = dyn_cast<nn::LibraryOpInterface>(op))
        calls.push_back(call);
    for (nn::LibraryOpInterface call : calls) {
      builder.setInsertionPoint(call);
      buildCall(builder, call, fuse ? biasOf(call) : nn::AddOp());
    }
    for (Operation &op : block)
      if (!staysOutside(&op) && !supported(&op))
        return op.emitError("has no kernel and no library call");

    Clustering clustering(block, fuse);
    for (const auto &cluster : clustering.clusters()) {
      // Where the last member stands every operand is there; users that stand
      // earlier are sorted behind it below.
      builder.setInsertionPointAfter(cluster->ops.back());
      buildKernel(builder, cluster->ops, labelOf(cluster->ops));
    }
    eraseUnread(block);
    // Moves that something other than a kernel reads have to be written.
    SmallVector<Operation *> moves;
    for (Operation &op : block)
      if (isReadThrough(&op))
        moves.push_back(&op);
    for (Operation *op : moves) {
      builder.setInsertionPointAfter(op);
      buildKernel(builder, op, labelOf(op));
    }
    if (!sortTopologically(&block))
      return block.getParentOp()->emitError("fusion made a cycle of kernels");
    return success();
  }

  static bool supported(Operation *op) {
    Value input;
    ArrayRef<int64_t> axes;
    return isa<nn::PointwiseOpInterface, nn::BroadcastToOp, nn::IotaOp, nn::TransposeOp,
               nn::SliceOp, nn::ReverseOp, nn::GatherOp, nn::ScatterAddOp, nn::ConcatOp, nn::PadOp>(
               op) ||
           reductionOf(op, input, axes);
  }

  /// Moves that every consumer reads through have no reader left.
  static void eraseUnread(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};

} // namespace
} // namespace diffc
