#include "runtime/execute/Memory.h"

#include <fstream>
#include <sstream>
#include <sys/mman.h>

namespace diffrun {
namespace {

/// A line of a /proc file in kB, as bytes; -1 if it is not there.
int64_t procLine(const char *file, const std::string &key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.rfind(key + ":", 0) == 0) {
      std::istringstream words(line.substr(key.size() + 1));
      int64_t kilobytes = -1;
      words >> kilobytes;
      return kilobytes * 1024;
    }
  return -1;
}

} // namespace

Memory::~Memory() {
  if (base)
    munmap(base, static_cast<size_t>(size));
}

Status Memory::check(int64_t bytes, const std::string &what) {
  int64_t free = freeMemory();
  if (free >= 0 && bytes > free)
    return Status::machine(what + " needs " + std::to_string(bytes) +
                               " bytes of memory, this machine has " + std::to_string(free) +
                               " free",
                           "use a smaller batch or model");
  return {};
}

Result<Memory> Memory::allocate(int64_t bytes, const std::string &what) {
  Memory memory;
  if (bytes == 0)
    return memory;
  void *base = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return Status::machine(what + " needs " + std::to_string(bytes) +
                               " bytes of memory, which the system refuses",
                           "raise the limit (ulimit -v), or use a smaller batch or model");
  // Large pages where the system has them: fewer misses on big buffers.
  madvise(base, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  memory.base = static_cast<char *>(base);
  memory.size = bytes;
  return memory;
}

int64_t machineMemory() { return procLine("/proc/meminfo", "MemTotal"); }
int64_t freeMemory() { return procLine("/proc/meminfo", "MemAvailable"); }

int64_t residentBytes() { return procLine("/proc/self/status", "VmRSS"); }
int64_t peakResidentBytes() { return procLine("/proc/self/status", "VmHWM"); }

void resetPeakResident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5"; // the peak of resident memory, see proc(5)
}

} // namespace diffrun
