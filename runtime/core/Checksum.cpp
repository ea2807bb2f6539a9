#include "runtime/core/Checksum.h"

#include <array>
#include <cstring>

namespace diffrun {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78; // reflected

std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (kPolynomial & (0u - (crc & 1)));
    table[i] = crc;
  }
  return table;
}

uint32_t byTable(const unsigned char *data, size_t bytes, uint32_t crc) {
  static const std::array<uint32_t, 256> table = makeTable();
  for (size_t i = 0; i < bytes; ++i)
    crc = crc >> 8 ^ table[(crc ^ data[i]) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t byInstruction(const unsigned char *data, size_t bytes,
                                                         uint32_t start) {
  uint64_t crc = start;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
  }
  return byTable(data, bytes, static_cast<uint32_t>(crc));
}
#endif

} // namespace

uint32_t crc32c(const void *data, size_t bytes, uint32_t before) {
  const auto *from = static_cast<const unsigned char *>(data);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2"))
    return ~byInstruction(from, bytes, ~before);
#endif
  return ~byTable(from, bytes, ~before);
}

} // namespace diffrun
