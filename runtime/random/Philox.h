// Philox 4x32-10: a counter-based random function.
#pragma once

#include <array>
#include <cstdint>

namespace diffrun {

/// Four random words for a 128-bit counter under a 64-bit key, 10 rounds.
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

} // namespace diffrun
