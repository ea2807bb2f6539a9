// Import of operators whose result's shape depends on their input's values: the
// input must be known when the model is compiled.
#include "compiler/import/Axes.h"

#include <numeric>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

const char *kDynamic =
    " must be known when the model is compiled: the result's shape depends on it";

/// The elements along `axis`, or of the flattened value, for which condition holds.
Outcome compress(NodeImport &in) {
  auto condition = in.constantIntegers(1);
  if (!condition)
    return in.fail(std::string("the condition") + kDynamic);
  Value x = in.operand(0);
  int64_t axis = 0;
  if (in.has("axis")) {
    auto wrapped = NodeImport::wrapAxis(in.integer("axis", 0), in.type(0).getRank());
    if (!wrapped)
      return in.fail("axis is out of range");
    axis = *wrapped;
  } else {
    x = nn::reshape(in.builder, x, {in.type(0).getNumElements()});
  }
  SmallVector<int64_t> places;
  for (auto [i, holds] : llvm::enumerate(*condition))
    if (holds)
      places.push_back(static_cast<int64_t>(i));
  if (!places.empty() && places.back() >= tensorType(x).getDimSize(axis))
    return in.fail("the condition is longer than the dimension");
  return in.build<GatherOp>(x, in.constant(places, {static_cast<int64_t>(places.size())}), axis);
}

/// The places of elements that are not 0: [rank, count].
Outcome nonZero(NodeImport &in) {
  SmallVector<bool> holds;
  if (auto whole = in.constantIntegers(0))
    for (int64_t x : *whole)
      holds.push_back(x != 0);
  else if (auto real = in.constantReals(0))
    for (double x : *real)
      holds.push_back(x != 0);
  else
    return in.fail(std::string("the input") + kDynamic);
  ArrayRef<int64_t> shape = in.type(0).getShape();
  // A scalar counts as a vector of one.
  SmallVector<int64_t> extents(shape.empty() ? ArrayRef<int64_t>{1} : shape);
  SmallVector<SmallVector<int64_t>> places(extents.size());
  for (auto [i, yes] : llvm::enumerate(holds)) {
    int64_t rest = static_cast<int64_t>(i);
    for (size_t d = extents.size(); yes && d-- > 0; rest /= extents[d])
      places[d].push_back(rest % extents[d]);
  }
  SmallVector<int64_t> all;
  for (const auto &row : places)
    llvm::append_range(all, row);
  int64_t rank = extents.size();
  return NodeImport::Values{in.constant(all, {rank, static_cast<int64_t>(places[0].size())})};
}

/// Slices along an axis that differ, each once: the first place of each, which
/// one each slice is, and how many there are of it.
struct Distinct {
  SmallVector<int64_t> first, which, count;
};

template <typename T>
Distinct distinct(ArrayRef<T> data, ArrayRef<int64_t> shape, int64_t axis, bool sorted) {
  int64_t inner = elementCount(shape.drop_front(axis + 1)), extent = shape[axis];
  int64_t outer = elementCount(shape.take_front(axis));
  auto slice = [&](int64_t i) {
    std::vector<T> elements;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < inner; ++j)
        elements.push_back(data[(o * extent + i) * inner + j]);
    return elements;
  };
  std::map<std::vector<T>, int64_t> known; // in order
  Distinct found;
  for (int64_t i = 0; i < extent; ++i) {
    auto [at, isNew] = known.try_emplace(slice(i), static_cast<int64_t>(found.first.size()));
    if (isNew) {
      found.first.push_back(i);
      found.count.push_back(0);
    }
    ++found.count[at->second];
    found.which.push_back(at->second);
  }
  if (!sorted)
    return found;
  Distinct ordered;
  SmallVector<int64_t> rank(found.first.size());
  for (const auto &[elements, number] : known) {
    rank[number] = static_cast<int64_t>(ordered.first.size());
    ordered.first.push_back(found.first[number]);
    ordered.count.push_back(found.count[number]);
  }
  for (int64_t number : found.which)
    ordered.which.push_back(rank[number]);
  return ordered;
}

Outcome unique(NodeImport &in) {
  auto whole = in.constantIntegers(0);
  auto real = in.constantReals(0);
  if (!whole && !real)
    return in.fail(std::string("the input") + kDynamic);
  Value x = in.operand(0);
  int64_t axis = 0;
  if (in.has("axis")) {
    auto wrapped = NodeImport::wrapAxis(in.integer("axis", 0), in.type(0).getRank());
    if (!wrapped)
      return in.fail("axis is out of range");
    axis = *wrapped;
  } else {
    x = nn::reshape(in.builder, x, {in.type(0).getNumElements()});
  }
  if (real && llvm::any_of(*real, [](double v) { return std::isnan(v); }))
    return in.fail("the input has NaN, which equals nothing");
  bool sorted = in.integer("sorted", 1);
  ArrayRef<int64_t> shape = tensorType(x).getShape();
  Distinct found = whole ? distinct<int64_t>(*whole, shape, axis, sorted)
                         : distinct<double>(*real, shape, axis, sorted);
  auto vector = [&](ArrayRef<int64_t> elements) {
    return in.constant(elements, {static_cast<int64_t>(elements.size())});
  };
  DIFFRUN_ASSIGN(auto slices, in.build<GatherOp>(x, vector(found.first), axis));
  return NodeImport::Values{slices[0], vector(found.first), vector(found.which),
                            vector(found.count)};
}

} // namespace

void addSearchHandlers(HandlerTable &t) {
  t["Compress"] = {compress, 9, 2};
  t["NonZero"] = {nonZero, 9, 1, {0}};
  t["Unique"] = {unique, 11, 1, {0}};
}

} // namespace diffc
