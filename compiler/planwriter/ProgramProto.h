// The evaluator's graph in the plan.
#pragma once

#include "runtime/evaluate/Evaluate.h"
#include "runtime/plan/plan.pb.h"

namespace diffc {

void writeProgram(const diffrun::evaluate::Graph &graph, diffrun::proto::Program &out);

} // namespace diffc
