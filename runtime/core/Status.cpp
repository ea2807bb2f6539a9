#include "runtime/core/Status.h"

#include <cstdio>

namespace diffrun {

int exitCode(const Status &status) {
  if (status.ok())
    return 0;
  switch (status.code()) {
  case ErrorCode::kInvalidInput:
    return 1;
  case ErrorCode::kUsage:
    return 2;
  case ErrorCode::kInternal:
    return 3;
  case ErrorCode::kMachine:
    return 4;
  }
  return 3;
}

void report(const std::string &tool, const Status &status) {
  if (status.ok())
    return;
  std::fprintf(stderr, "%s: error: %s\n", tool.c_str(), status.message().c_str());
  if (!status.help().empty())
    std::fprintf(stderr, "  help: %s\n", status.help().c_str());
}

} // namespace diffrun
