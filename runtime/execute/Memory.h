// Big pieces of memory that live as long as a program.
#pragma once

#include "runtime/core/Status.h"

#include <cstdint>
#include <string>
#include <utility>

namespace diffrun {

/// Zeroed pages, page-aligned; given back when it goes.
class Memory {
public:
  Memory() = default;
  Memory(Memory &&other) noexcept { *this = std::move(other); }
  Memory &operator=(Memory &&other) noexcept {
    std::swap(base, other.base);
    std::swap(size, other.size);
    return *this;
  }
  ~Memory();

  /// Reserves address space; pages come when they are first written.
  /// Errors: Machine naming `what` and the bytes.
  static Result<Memory> allocate(int64_t bytes, const std::string &what);

  /// Errors: Machine naming `what`, the bytes asked for and those free, if this
  /// machine cannot hold them.
  static Status check(int64_t bytes, const std::string &what);

  char *data() const { return base; }
  int64_t bytes() const { return size; }

private:
  char *base = nullptr;
  int64_t size = 0;
};

/// Bytes of memory that the machine has, and that a program could still take; -1
/// where the system does not say.
int64_t machineMemory();
int64_t freeMemory();

/// Bytes of the process in memory: now, and at most so far (VmRSS, VmHWM).
int64_t residentBytes();
int64_t peakResidentBytes();
/// Starts the peak anew at what is resident now, where the system lets us.
void resetPeakResident();

} // namespace diffrun
