// The checksum at the end of a plan file.
#pragma once

#include <string>

namespace diffrun {

/// Appends the checksum of `plan` (a serialised Plan without one) as its last
/// field. A plan file without its seal is cut short or damaged.
void sealPlan(std::string &plan);

/// Whether `plan` ends in the checksum of what comes before.
bool isSealed(const std::string &plan);

} // namespace diffrun
