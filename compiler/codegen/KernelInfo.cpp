#include "compiler/codegen/KernelInfo.h"

#include "dialects/nn/IR/Builders.h"

#include <llvm/Support/raw_ostream.h>

using namespace mlir;

namespace diffc {
namespace {

/// Row-major strides; none is 0, which would mean that elements repeat, even
/// where there are none.
SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(1, shape[i + 1]);
  return strides;
}

/// A strided view with its own shape, before it is laid over the domain.
struct View {
  int64_t buffer, offset;
  SmallVector<int64_t> shape, strides;
};

class Analysis {
public:
  Analysis(nn::KernelOp kernel, std::string &reason) : kernel(kernel), reason(reason) {}

  FailureOr<KernelInfo> run() {
    if (isSpecial())
      return special();
    if (failed(findDomain()) || failed(findViews()) || failed(findVariation()) ||
        failed(findStores()))
      return failure();
    collapse();
    partition();
    findInPlace();
    countWork();
    return info;
  }

private:
  LogicalResult refuse(const Twine &why) {
    reason = why.str();
    return failure();
  }

  Operation *onlyOp() {
    Block &block = kernel.getBlock();
    auto body = block.without_terminator();
    if (body.empty() || std::next(body.begin()) != body.end())
      return nullptr;
    return &*body.begin();
  }

  bool isSpecial() {
    Operation *op = onlyOp();
    if (!op)
      return false;
    info.kind = TypeSwitch<Operation *, KernelKind>(op)
                    .Case<nn::GatherOp>([](auto) { return KernelKind::kGather; })
                    .Case<nn::ScatterAddOp>([](auto) { return KernelKind::kScatterAdd; })
                    .Case<nn::ConcatOp>([](auto) { return KernelKind::kConcat; })
                    .Case<nn::PadOp>([](auto) { return KernelKind::kPad; })
                    .Default([](auto) { return KernelKind::kLoops; });
    return info.kind != KernelKind::kLoops;
  }

  /// Work along the outer dimensions of the special kernels.
  FailureOr<KernelInfo> special() {
    Operation *op = onlyOp();
    auto result = nn::tensorType(op->getResult(0));
    if (auto gather = dyn_cast<nn::GatherOp>(op)) {
      info.units = nn::elementCount(result.getShape().take_front(gather.getAxis())) *
                   nn::tensorType(gather.getIndices()).getNumElements();
    } else if (auto scatter = dyn_cast<nn::ScatterAddOp>(op)) {
      // Rows are added in order: parallel over the columns only.
      int64_t outer = nn::elementCount(result.getShape().take_front(scatter.getAxis()));
      int64_t inner = nn::elementCount(result.getShape().drop_front(scatter.getAxis() + 1));
      info.blockLanes = 64;
      info.units = outer * ((inner + 63) / 64);
    } else if (auto concat = dyn_cast<nn::ConcatOp>(op)) {
      info.units = nn::elementCount(result.getShape().take_front(concat.getAxis()));
    } else {
      auto pad = cast<nn::PadOp>(op);
      info.units = result.getRank() ? nn::elementCount(result.getShape().drop_back()) : 1;
      (void)pad;
    }
    info.chunks = chunksFor(info.units, result.getNumElements());
    countWork();
    return info;
  }

  /// The shape that all loops run over: a reduction's input, or the largest
  /// result.
  LogicalResult findDomain() {
    for (Operation &op : kernel.getBlock().without_terminator()) {
      Value input;
      ArrayRef<int64_t> axes;
      if (!reduction(&op, input, axes))
        continue;
      ArrayRef<int64_t> shape = nn::tensorType(input).getShape();
      SmallVector<bool> over(shape.size(), false);
      for (int64_t axis : axes)
        over[axis] = true;
      if (info.hasReduction && (ArrayRef<int64_t>(domain) != shape || reducedDims != over))
        return refuse("reductions of different shapes or axes");
      info.hasReduction = true;
      domain.assign(shape.begin(), shape.end());
      reducedDims = over;
    }
    if (!info.hasReduction) {
      for (Type type : kernel.getResultTypes()) {
        ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
        if (shape.size() > domain.size() ||
            (shape.size() == domain.size() && nn::elementCount(shape) > nn::elementCount(domain)))
          domain.assign(shape.begin(), shape.end());
      }
      reducedDims.assign(domain.size(), false);
    }
    if (domain.empty()) {
      domain.push_back(1);
      reducedDims.push_back(false);
    }
    return success();
  }

  static bool reduction(Operation *op, Value &input, ArrayRef<int64_t> &axes) {
    return TypeSwitch<Operation *, bool>(op)
        .Case<nn::ReduceSumOp, nn::ReduceMaxOp, nn::ReduceMinOp>([&](auto reduce) {
          input = reduce.getInput();
          axes = reduce.getAxes();
          return true;
        })
        .Default([](auto) { return false; });
  }

  /// Lays a view over the domain: dimensions aligned at the end, 1 repeats.
  LogicalResult layOver(const View &view, Access &access) {
    size_t rank = domain.size();
    if (view.shape.size() > rank)
      return refuse("a value has more dimensions than the loop nest");
    access.buffer = view.buffer;
    access.offset = view.offset;
    access.strides.assign(rank, 0);
    for (size_t i = 0; i < view.shape.size(); ++i) {
      size_t d = rank - view.shape.size() + i;
      if (view.shape[i] == 1)
        continue;
      if (view.shape[i] != domain[d])
        return refuse("a value's shape does not fit the loop nest");
      access.strides[d] = view.strides[i];
    }
    return success();
  }

  /// Block arguments, and moves of them, as views; the body's other values
  /// are computed.
  LogicalResult findViews() {
    DenseMap<Value, View> views;
    Block &block = kernel.getBlock();
    for (BlockArgument argument : block.getArguments()) {
      auto shape = nn::tensorType(argument).getShape();
      views[argument] = {argument.getArgNumber(), 0, SmallVector<int64_t>(shape),
                         denseStrides(shape)};
    }
    for (Operation &op : block.without_terminator()) {
      std::optional<View> moved;
      if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
        auto from = views.find(transpose.getInput());
        if (from == views.end())
          return refuse("a computed value is transposed");
        moved = from->second;
        for (auto [to, dim] : llvm::enumerate(transpose.getPermutation())) {
          moved->shape[to] = from->second.shape[dim];
          moved->strides[to] = from->second.strides[dim];
        }
      } else if (auto slice = dyn_cast<nn::SliceOp>(op)) {
        auto from = views.find(slice.getInput());
        if (from == views.end())
          return refuse("a computed value is sliced");
        moved = from->second;
        for (size_t i = 0; i < moved->shape.size(); ++i) {
          moved->offset += slice.getStarts()[i] * moved->strides[i];
          moved->shape[i] = slice.getSizes()[i];
          moved->strides[i] *= slice.getStrides()[i];
        }
      } else if (auto reverse = dyn_cast<nn::ReverseOp>(op)) {
        auto from = views.find(reverse.getInput());
        if (from == views.end())
          return refuse("a computed value is reversed");
        moved = from->second;
        for (int64_t axis : reverse.getAxes()) {
          moved->offset += (moved->shape[axis] - 1) * moved->strides[axis];
          moved->strides[axis] = -moved->strides[axis];
        }
      } else if (auto broadcast = dyn_cast<nn::BroadcastToOp>(op)) {
        auto from = views.find(broadcast.getInput());
        if (from == views.end())
          continue; // of a computed value: the same number at every index
        moved = from->second;
        size_t added = broadcast.getShape().size() - moved->shape.size();
        moved->shape.insert(moved->shape.begin(), added, 1);
        moved->strides.insert(moved->strides.begin(), added, 0);
        for (size_t i = 0; i < moved->shape.size(); ++i)
          if (moved->shape[i] == 1 && broadcast.getShape()[i] != 1) {
            moved->shape[i] = broadcast.getShape()[i];
            moved->strides[i] = 0;
          }
      }
      if (moved)
        views[op.getResult(0)] = *moved;
    }
    for (auto &[value, view] : views) {
      // An argument that is only moved is read through its moves.
      bool direct = false;
      for (Operation *user : value.getUsers())
        direct |= !isa<nn::TransposeOp, nn::SliceOp, nn::ReverseOp>(user) &&
                  !(isa<nn::BroadcastToOp>(user));
      if (direct && failed(layOver(view, info.loads[value])))
        return failure();
    }
    return success();
  }

  LogicalResult findVariation() {
    size_t rank = domain.size();
    for (auto &[value, access] : info.loads) {
      SmallVector<bool> along;
      for (int64_t stride : access.strides)
        along.push_back(stride != 0);
      info.varies[value] = along;
    }
    for (Operation &op : kernel.getBlock().without_terminator()) {
      if (isa<nn::TransposeOp, nn::SliceOp, nn::ReverseOp>(op) || info.loads.count(op.getResult(0)))
        continue;
      if (isa<nn::BroadcastToOp>(op) && !info.varies.count(op.getOperand(0)))
        continue; // a moved argument that only moves read
      SmallVector<bool> along(rank, false);
      if (auto iota = dyn_cast<nn::IotaOp>(op)) {
        size_t dim = rank - nn::tensorType(iota.getResult()).getRank() + iota.getAxis();
        along[dim] = nn::tensorType(iota.getResult()).getDimSize(iota.getAxis()) != 1;
        info.iotas[iota.getResult()] = static_cast<int64_t>(dim);
      } else if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
        auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!dense || !dense.isSplat())
          return refuse("a constant table inside a kernel");
      } else {
        for (Value operand : op.getOperands())
          for (size_t d = 0; d < rank; ++d)
            along[d] = along[d] || info.varies[operand][d];
        Value input;
        ArrayRef<int64_t> axes;
        if (reduction(&op, input, axes)) {
          for (size_t d = 0; d < rank; ++d)
            if (reducedDims[d])
              along[d] = false;
        } else if (!isa<nn::PointwiseOpInterface, nn::BroadcastToOp>(op)) {
          return refuse("operator " + op.getName().getStringRef() + " in a loop nest");
        }
      }
      for (Value result : op.getResults())
        info.varies[result] = along;
    }
    return success();
  }

  LogicalResult findStores() {
    Operation *yield = kernel.getBlock().getTerminator();
    for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
      auto shape = nn::tensorType(value).getShape();
      View view{static_cast<int64_t>(kernel.getNumOperands() + i), 0, SmallVector<int64_t>(shape),
                denseStrides(shape)};
      // A reduction that drops its axes: put them back as 1.
      if (Operation *op = value.getDefiningOp()) {
        Value input;
        ArrayRef<int64_t> axes;
        if (reduction(op, input, axes) && shape.size() < domain.size())
          for (int64_t axis : axes) {
            view.shape.insert(view.shape.begin() + axis, 1);
            view.strides.insert(view.strides.begin() + axis, 0);
          }
      }
      Access store;
      if (failed(layOver(view, store)))
        return failure();
      // Everything the value varies along must be stored.
      auto along = info.varies.find(value);
      if (along == info.varies.end())
        return refuse("a result is a mere move");
      bool dropped = !info.hasReduction && nn::elementCount(shape) != nn::elementCount(domain);
      for (size_t d = 0; d < domain.size(); ++d) {
        dropped |= along->second[d] && store.strides[d] == 0 && domain[d] != 1;
        // Stored by each of several loop indices: only along reduced ones,
        // where the value is finished outside the loop.
        dropped |= store.strides[d] == 0 && domain[d] != 1 && !reducedDims[d];
      }
      if (dropped)
        return refuse("a result is smaller than the loop nest");
      info.stores.push_back(store);
    }
    return success();
  }

  /// Joins neighbouring dimensions that every access walks as one.
  void collapse() {
    info.extents = domain;
    info.reduced = reducedDims;
    SmallVector<Access *> all;
    for (auto &[value, access] : info.loads)
      all.push_back(&access);
    for (Access &access : info.stores)
      all.push_back(&access);
    for (int64_t d = static_cast<int64_t>(info.extents.size()) - 2; d >= 0; --d) {
      int64_t inner = info.extents[d + 1];
      bool joins = inner == 1 || info.extents[d] == 1 || info.reduced[d] == info.reduced[d + 1];
      for (Access *access : all) {
        bool one = info.extents[d] == 1 || inner == 1 ||
                   access->strides[d] == access->strides[d + 1] * inner;
        joins &= one;
      }
      for (auto &[value, dim] : info.iotas)
        joins &= dim != d && dim != d + 1;
      if (!joins)
        continue;
      int64_t keep = inner == 1 ? d : d + 1; // whose stride and kind stay
      for (Access *access : all) {
        access->strides[d + 1] = access->strides[keep];
        access->strides.erase(access->strides.begin() + d);
      }
      for (auto &[value, along] : info.varies) {
        along[d + 1] = along[d] || along[d + 1];
        along.erase(along.begin() + d);
      }
      for (auto &[value, dim] : info.iotas)
        dim -= dim > d;
      info.reduced[d + 1] = info.reduced[keep];
      info.reduced.erase(info.reduced.begin() + d);
      info.extents[d + 1] *= info.extents[d];
      info.extents.erase(info.extents.begin() + d);
    }
  }

  static int64_t chunksFor(int64_t units, int64_t elements) {
    constexpr int64_t kGrain = 8192; // elements that are worth a thread's start
    constexpr int64_t kMost = 32;
    return std::max<int64_t>(1, std::min({units, kMost, elements / kGrain}));
  }

  void partition() {
    int64_t last = info.extents.back(), rows = 1;
    for (size_t d = 0; d + 1 < info.extents.size(); ++d)
      if (!info.reduced[d])
        rows *= info.extents[d];
    int64_t width = 1;
    // Sums down the columns read whole rows of lanes: wide ones, so that each
    // step takes several cache lines.
    int64_t widest = info.hasReduction && !info.lastReduced() ? 64 : 32;
    while (width < std::min<int64_t>(last, widest))
      width *= 2;
    info.lanes = width;
    if (info.lastReduced()) {
      info.blockLanes = last;
    } else {
      // Lanes are kept: a unit is one vector where the loop is over reduced
      // dimensions, a run of vectors where there is none.
      int64_t vectors = std::max<int64_t>(1, (last + width - 1) / width);
      info.blockLanes = info.hasReduction ? width : std::min<int64_t>(2048, vectors * width);
      rows *= (last + info.blockLanes - 1) / info.blockLanes;
    }
    info.units = rows;
    info.chunks = chunksFor(info.units, nn::elementCount(info.extents));
  }

  void findInPlace() {
    for (size_t r = 0; r < info.stores.size(); ++r) {
      const Access &store = info.stores[r];
      Type resultType = kernel.getResultTypes()[r];
      for (unsigned i = 0; i < kernel.getNumOperands(); ++i) {
        if (nn::byteSize(kernel.getOperand(i).getType()) != nn::byteSize(resultType) ||
            nn::tensorType(kernel.getOperand(i)).getElementType() !=
                cast<RankedTensorType>(resultType).getElementType())
          continue;
        // Every read of the operand is at the element that is written, and
        // a value with reductions is written in its last pass over the row.
        bool same = true, any = false;
        for (auto &[value, load] : info.loads)
          if (load.buffer == static_cast<int64_t>(i)) {
            any = true;
            same &= load.offset == store.offset && load.strides == store.strides;
          }
        if (any && same && !info.hasReduction)
          info.inPlace.emplace_back(r, i);
      }
    }
  }

  void countWork() {
    for (size_t i = 0; i < kernel.getNumOperands(); ++i)
      info.bytesRead += elementsRead(i) * elementBytes(kernel.getOperand(i));
    info.bytesWritten = nn::totalBytes(kernel.getResultTypes());
    for (Operation &op : kernel.getBlock().without_terminator())
      if (auto cost = dyn_cast<nn::CostOpInterface>(op))
        info.flops += cost.getFlops();
  }

  static int64_t elementBytes(Value value) {
    int64_t count = nn::tensorType(value).getNumElements();
    return count ? nn::byteSize(value.getType()) / count : 0;
  }

  /// Elements of an operand that are read, each counted once. How many rows a
  /// gather finds twice is not known: then as many as there are indices, at most
  /// all.
  int64_t elementsRead(size_t operand) {
    auto type = nn::tensorType(kernel.getOperand(operand));
    if (info.kind == KernelKind::kLoops)
      return elementsLoaded(operand);
    Value argument = kernel.getBlock().getArgument(operand);
    if (auto gather = dyn_cast<nn::GatherOp>(onlyOp()); gather && argument == gather->getOperand(0))
      return std::min(type.getNumElements(), nn::tensorType(gather.getResult()).getNumElements());
    if (auto pad = dyn_cast<nn::PadOp>(onlyOp()))
      return elementsKept(pad, type);
    return type.getNumElements();
  }

  /// What a pad does not crop.
  static int64_t elementsKept(nn::PadOp pad, RankedTensorType type) {
    int64_t kept = 1;
    for (int64_t d = 0; d < type.getRank(); ++d) {
      // low + i * step lies in [0, to).
      int64_t to = nn::tensorType(pad.getResult()).getDimSize(d), low = pad.getLow()[d];
      int64_t step = pad.getInterior()[d] + 1;
      int64_t first = low < 0 ? (-low + step - 1) / step : 0;
      int64_t end = low < to ? (to - 1 - low) / step + 1 : 0;
      kept *= std::max<int64_t>(0, std::min(end, type.getDimSize(d)) - first);
    }
    return kept;
  }

  int64_t elementsLoaded(size_t operand) {
    SmallVector<Access> accesses;
    for (auto &[value, load] : info.loads)
      if (load.buffer == static_cast<int64_t>(operand) && !llvm::is_contained(accesses, load))
        accesses.push_back(load);
    if (accesses.empty())
      return 0;
    auto distinct = [&](const Access &access) {
      int64_t count = 1;
      for (auto [stride, extent] : llvm::zip_equal(access.strides, info.extents))
        count *= stride ? extent : 1;
      return count;
    };
    if (accesses.size() == 1)
      return distinct(accesses.front());
    int64_t sum = 0;
    for (const Access &access : accesses)
      sum += distinct(access);
    return std::min({sum, elementsReached(accesses),
                     nn::tensorType(kernel.getOperand(operand)).getNumElements()});
  }

  /// The first and last element that accesses reach over loops of `extents`.
  static std::pair<int64_t, int64_t> reach(ArrayRef<Access> accesses, ArrayRef<int64_t> extents) {
    int64_t low = std::numeric_limits<int64_t>::max(), high = 0;
    for (const Access &access : accesses) {
      int64_t first = access.offset, last = access.offset;
      for (auto [stride, extent] : llvm::zip_equal(access.strides, extents))
        (stride < 0 ? first : last) += stride * (extent - 1);
      low = std::min(low, first), high = std::max(high, last);
    }
    return {low, high};
  }

  /// Elements that several views of one buffer reach together: they may overlap.
  /// Exact, but for views that overlap across more than 2^28 elements.
  int64_t elementsReached(ArrayRef<Access> accesses) {
    if (nn::elementCount(info.extents) == 0)
      return 0;
    SmallVector<int64_t> extents(info.extents);
    int64_t repeats = 1;
    // A loop that takes all of them past what they reach without it only
    // repeats the rest: channels and batches, mostly.
    for (size_t d = 0; d < extents.size(); ++d) {
      int64_t stride = accesses.front().strides[d];
      if (!llvm::all_of(accesses, [&](const Access &a) { return a.strides[d] == stride; }))
        continue;
      int64_t extent = std::exchange(extents[d], 1);
      auto [low, high] = reach(accesses, extents);
      if (stride == 0)
        continue; // the same elements again
      if (std::abs(stride) > high - low)
        repeats *= extent;
      else
        extents[d] = extent;
    }
    auto [low, high] = reach(accesses, extents);
    if (high - low >= int64_t{1} << 28)
      return std::numeric_limits<int64_t>::max();
    std::vector<bool> read(high - low + 1, false);
    for (const Access &access : accesses)
      markRead(access, extents, 0, access.offset - low, read);
    return repeats * std::count(read.begin(), read.end(), true);
  }

  static void markRead(const Access &access, ArrayRef<int64_t> extents, size_t dim, int64_t at,
                       std::vector<bool> &read) {
    if (dim == extents.size()) {
      read[at] = true;
      return;
    }
    for (int64_t i = 0; i < (access.strides[dim] ? extents[dim] : 1); ++i)
      markRead(access, extents, dim + 1, at + i * access.strides[dim], read);
  }

  nn::KernelOp kernel;
  std::string &reason;
  KernelInfo info;
  SmallVector<int64_t> domain;
  SmallVector<bool> reducedDims;
};

} // namespace

FailureOr<KernelInfo> analyzeKernel(nn::KernelOp kernel, std::string &reason) {
  return Analysis(kernel, reason).run();
}

std::string kernelSignature(nn::KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (Type type : kernel.getOperandTypes())
    stream << type << ' ';
  DenseMap<Value, unsigned> numbers;
  auto number = [&](Value value) {
    return numbers.try_emplace(value, numbers.size()).first->second;
  };
  for (Value argument : kernel.getBlock().getArguments())
    number(argument);
  for (Operation &op : kernel.getBlock()) {
    stream << '\n' << op.getName() << '(';
    for (Value operand : op.getOperands())
      stream << number(operand) << ' ';
    stream << ')' << op.getAttrDictionary() << "->";
    for (Value result : op.getResults())
      stream << number(result) << ':' << result.getType() << ' ';
  }
  return text;
}

} // namespace diffc
