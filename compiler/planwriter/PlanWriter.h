// The plan file on disk.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

#include <string>

namespace diffc {

/// Writes `plan` to `path`: a temporary file first, then renamed. The same plan
/// gives the same bytes.
diffrun::Status writePlan(const diffrun::proto::Plan &plan, const std::string &path);

} // namespace diffc
