// How far from the exact result an operation in f32 may be.
#pragma once

#include "runtime/evaluate/Evaluate.h"
#include "runtime/plan/LoadedPlan.h"

#include <optional>
#include <vector>

namespace diffrun {

using Values = std::vector<std::optional<evaluate::Tensor>>;

/// What `op` may be off, per element of each of its results; f32 rounds by
/// u = 2^-24.
///
/// Contractions: u (16 + 4 sqrt(K)) S with K the terms of a sum and S the larger
/// of sqrt(K) max|a| max|b| and max|result|: rounding errors of a sum add up like
/// a random walk, over partial sums that are no larger than S unless they cancel.
///
/// Everything else: its nodes are evaluated again with every operand of every
/// node off by a random sign times u (a sum of K terms besides by
/// u (1 + sqrt(K) / 4) of its size): what comes out differently is what rounding
/// does to this element. 32 times the largest of two such differences and their mean
/// square over the tensor, and 16 u of the result and 4 u of the largest one for approximations of
/// functions. Source of the method: Vignes 1993, A stochastic arithmetic for reliable scientific
/// computation.
///
/// Integers and booleans may differ as far as they do in one of eight such
/// evaluations: where a comparison is within rounding, it may go either way.
///
/// Draws are bits: they may not be off at all.
///
/// `operands` holds the operation's operands by value number, `exact` its results.
Result<std::vector<std::vector<double>>> tolerancesOf(const evaluate::Graph &graph,
                                                      const proto::Op &op, const Values &operands,
                                                      const Values &exact);

} // namespace diffrun
