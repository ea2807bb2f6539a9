// CRC-32C, for files that must be found out when they are damaged.
#pragma once

#include "runtime/core/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace diffrun {

/// CRC-32C (Castagnoli) of `bytes` bytes; `before` is the checksum of what
/// comes before them, so that pieces can be added up.
uint32_t crc32c(const void *data, size_t bytes, uint32_t before = 0);

/// The same of a whole file. Errors: InvalidInput if it cannot be read.
Result<uint32_t> crc32cOfFile(const std::string &path);

} // namespace diffrun
