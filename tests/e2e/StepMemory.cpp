// What a step takes from the heap: every allocation of the process is counted,
// those of libraries and other threads included.
//   step_memory PLAN ENTRY MOST
// Prints a line; exit code 1 if more than MOST bytes were ever taken at once, or
// if a step leaves anything behind.
//
// malloc and its relatives are replaced for the whole process (shared libraries
// take the executable's), so this is a program of its own.
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <malloc.h>

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
}

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> calls{0}, live{0}, most{0};

void *taken(void *memory) {
  if (!memory || !counting.load(std::memory_order_relaxed))
    return memory;
  ++calls;
  int64_t now = live += static_cast<int64_t>(malloc_usable_size(memory));
  for (int64_t before = most; now > before && !most.compare_exchange_weak(before, now);)
    continue;
  return memory;
}

void given(void *memory) {
  if (memory && counting.load(std::memory_order_relaxed))
    live -= static_cast<int64_t>(malloc_usable_size(memory));
}

} // namespace

extern "C" {
void *malloc(size_t size) { return taken(__libc_malloc(size)); }
void *calloc(size_t number, size_t size) { return taken(__libc_calloc(number, size)); }
void *realloc(void *old, size_t size) {
  given(old);
  return taken(__libc_realloc(old, size));
}
void *memalign(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **out, size_t alignment, size_t size) {
  *out = memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
void free(void *memory) {
  given(memory);
  __libc_free(memory);
}
}

namespace diffrun {
namespace {

Status measure(const std::string &path, const std::string &name, int64_t allowed) {
  DIFFRUN_ASSIGN(auto program, openProgram(path, {name}));
  const proto::Entry *entry = program->plan().findEntry(name);
  if (!entry)
    return Status::invalid(path + ": has no entry " + name);
  SyntheticData data(*entry);
  for (int warmup = 0; warmup < 2; ++warmup) // libraries make ready what they keep
    DIFFRUN_RETURN_IF_ERROR(program->run(name, data.data()));
  constexpr int kSteps = 2;
  counting = true;
  Status status;
  for (int step = 0; step < kSteps && status.ok(); ++step)
    status = program->run(name, data.data());
  counting = false;
  DIFFRUN_RETURN_IF_ERROR(status);
  std::string found =
      fmt::format("{}: {} allocations a step, {} bytes at once at most, {} bytes left", path,
                  calls / kSteps, most.load(), live.load());
  fmt::print("{}\n", found);
  if (calls == 0)
    return Status::internal("nothing was counted: the library's argument lists must be");
  if (most > allowed || live > 0)
    return Status::invalid(found + "; allowed are " + std::to_string(allowed) + " and 0");
  return {};
}

} // namespace
} // namespace diffrun

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  auto status = diffrun::measure(argv[1], argv[2], std::strtoll(argv[3], nullptr, 10));
  diffrun::report("step_memory", status);
  return diffrun::exitCode(status);
}
