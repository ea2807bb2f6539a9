// Reports on a plan, as text or JSON.
#pragma once

#include "runtime/plan/plan.pb.h"

#include <string>

namespace diffc {

struct ReportOptions {
  bool fusion = false, memory = false, kernels = false;
  bool json = false;
};

/// The summary (target, entries, state, arena), and the asked-for parts:
///   fusion   each operation with its nodes, bytes read and written, FLOPs, and
///            why it did not grow
///   memory   state by role, the arena's peak and who holds it
///   kernels  distinct kernels and how often each is launched
std::string report(const diffrun::proto::Plan &plan, const ReportOptions &options);

} // namespace diffc
