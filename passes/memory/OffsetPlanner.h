// Places buffers with known lifetimes into one arena. Free of MLIR.
#pragma once

#include <cstdint>
#include <vector>

namespace diffc {

/// A buffer that is live from step `begin` to step `end`, both included.
struct Lifetime {
  int64_t begin = 0, end = 0, bytes = 0;
};

struct Placement {
  std::vector<int64_t> offsets; ///< by buffer; multiples of the alignment
  int64_t bytes = 0;            ///< of the arena
};

/// A way of placing buffers.
class OffsetPlanner {
public:
  virtual ~OffsetPlanner() = default;
  /// Buffers whose lifetimes share a step get ranges that do not overlap.
  virtual Placement place(const std::vector<Lifetime> &buffers, int64_t alignment) const = 0;
};

/// Largest buffer first, each at the lowest offset that is free for the whole
/// of its life; O(n^2). Deterministic.
class LargestFirstPlanner : public OffsetPlanner {
public:
  Placement place(const std::vector<Lifetime> &buffers, int64_t alignment) const override;
};

} // namespace diffc
