// What this machine's processor can do, by LLVM's feature names.
#pragma once

#include <string>

namespace diffrun {

/// False for a feature that this processor lacks or that is not known here.
bool cpuHas(const std::string &feature);

} // namespace diffrun
