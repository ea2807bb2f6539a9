// The whole way of one small ONNX model: evaluated, differentiated, compiled.
#pragma once

#include "tests/unit/import/OnnxBuilder.h"

namespace diffc::test {

/// Imports the model and checks, on the feeds,
/// - the gradient of a weighted sum of its float outputs for each float input and
///   parameter, against central differences in double precision (f32 and f64), and
/// - the compiled plan of outputs and gradients against the evaluator: each of its
///   operations, and the results within `tolerance` of their largest number.
/// Every number must be finite. Feeds stand away from kinks.
void checkOperator(const OnnxBuilder &model, const std::map<std::string, Values> &feeds,
                   const ImportOptions &options = {}, double tolerance = 2e-5);

/// The model's outputs on the feeds, by the evaluator and by a compiled plan.
struct BothWays {
  std::vector<diffrun::evaluate::Tensor> evaluated, compiled;
};
diffrun::Result<BothWays> runBothWays(const OnnxBuilder &model,
                                      const std::map<std::string, Values> &feeds,
                                      const ImportOptions &options = {});

/// Expects the first output, both ways, to have this shape and these values;
/// NaN equals NaN. Integers and infinities exactly; `tolerance` is relative to
/// the value, at least to 1.
void expectBothWays(const OnnxBuilder &model, const std::map<std::string, Values> &feeds,
                    const Ints &shape, const Values &expected, double tolerance = 1e-6,
                    const ImportOptions &options = {});

/// The gradient of sum(weights * y) for one input or parameter, by the evaluator;
/// `weights` are those of the first output.
diffrun::Result<Values> gradientOf(const OnnxBuilder &model, const std::string &name,
                                   const std::map<std::string, Values> &feeds,
                                   const Values &weights);

/// Outputs, loss and gradients of the compiled plan alone: for f32 kernels whose
/// numbers are checked more closely than to the evaluator.
diffrun::Result<std::vector<diffrun::evaluate::Tensor>>
runCompiled(const OnnxBuilder &model, const std::map<std::string, Values> &feeds);

/// `count` numbers of either sign, between 0.1 and 1.5 from 0 and all different.
Values randomValues(int64_t count, uint32_t seed);

} // namespace diffc::test
