// CRC-32C, for files that must be found out when they are damaged.
#pragma once

#include <cstddef>
#include <cstdint>

namespace diffrun {

/// CRC-32C (Castagnoli) of `bytes` bytes; `before` is the checksum of what
/// comes before them, so that pieces can be added up.
uint32_t crc32c(const void *data, size_t bytes, uint32_t before = 0);

} // namespace diffrun
