// What this CPU can do, and the levels that plans are compiled for.
#pragma once

#include <string>
#include <vector>

namespace diffrun {

/// Whether the CPU has a feature (by LLVM's name) and the system saves its
/// registers. False for a name that is not known.
bool cpuHas(const std::string &feature);

/// A set of features that code is compiled for.
struct CpuLevel {
  std::string name; ///< "avx2", "avx512", "avx512bf16", "amx"
  std::vector<std::string> features;
};

/// Every level, from the least to the greatest; each has the features of those
/// before it.
const std::vector<CpuLevel> &cpuLevels();

} // namespace diffrun
