#include "passes/memory/OffsetPlanner.h"

#include <algorithm>
#include <numeric>

namespace diffc {

Placement LargestFirstPlanner::place(const std::vector<Lifetime> &buffers,
                                     int64_t alignment) const {
  Placement placement;
  placement.offsets.assign(buffers.size(), 0);
  auto rounded = [&](int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Lifetime &x = buffers[a], &y = buffers[b];
    if (x.bytes != y.bytes)
      return x.bytes > y.bytes;
    return x.end - x.begin > y.end - y.begin;
  });
  std::vector<size_t> placed; // by offset
  for (size_t at : order) {
    const Lifetime &buffer = buffers[at];
    int64_t size = rounded(buffer.bytes), offset = 0;
    for (size_t other : placed) {
      const Lifetime &there = buffers[other];
      if (there.end < buffer.begin || buffer.end < there.begin)
        continue;
      if (placement.offsets[other] >= offset + size)
        break; // the gap before it is wide enough, and those after lie higher
      offset = std::max(offset, placement.offsets[other] + rounded(there.bytes));
    }
    placement.offsets[at] = offset;
    placement.bytes = std::max(placement.bytes, offset + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [&](size_t a, size_t b) {
                                     return placement.offsets[a] < placement.offsets[b];
                                   }),
                  at);
  }
  return placement;
}

} // namespace diffc
