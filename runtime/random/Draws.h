// Random tensors keyed by what they are for, not by when they are drawn.
// Specified to the bit in docs/random.md.
#pragma once

#include "runtime/core/Status.h"

#include <cstdint>

namespace diffrun {

/// Names a draw: the same key gives the same numbers in any layout, thread
/// count, device or order.
struct DrawKey {
  uint64_t seed = 0;
  uint32_t stream = 0;      ///< which entry, and which use within it
  uint64_t iteration = 0;   ///< below 2^32
  uint64_t firstSample = 0; ///< index in the global batch; last one below 2^32
};

/// Standard normal numbers, out [samples, elements] row-major.
/// Errors: InvalidInput if iteration, sample or element / 4 leaves 32 bits.
Status drawNormal(const DrawKey &key, int64_t samples, int64_t elements, float *out);

/// Uniform numbers in [0, 1), multiples of 2^-24. Otherwise as drawNormal.
Status drawUniform(const DrawKey &key, int64_t samples, int64_t elements, float *out);

} // namespace diffrun
