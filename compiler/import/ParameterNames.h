// The names and layouts that a model's parameters have in the module it came from.
#pragma once

#include "compiler/import/ModelFile.h"

#include <string>
#include <vector>

namespace diffc {

/// Gives parameters the names and layouts back that their module knows them by, so that
/// checkpoints load into it; tensors of the file that are no parameters become constants.
///
/// Exporters fold transposes and reshapes into weights, invent names for the results
/// (onnx::MatMul_123, val_58), and store tensors of equal values once. What a float
/// initializer of rank 1 or more was is told by, first wins:
///
///   1. `parameters`, a safetensors file of the module's own parameters (empty: none): the
///      name, or what 2 and 3 say if the file has that name, or equal values, as they are,
///      reshaped or transposed; what it does not have is a constant
///   2. what torch.export notes: its signature's parameters and buffers (constants), and
///      from which of them a tensor was folded
///   3. the scope of the nodes that read an onnx:: tensor of the TorchScript exporter: the
///      second operand of a MatMul in /a/b is the transposed a.b.weight; the factor and the
///      summand of a group norm are its weight and bias; others are constants
///
/// Biases that an exporter dropped because they were zero come back.
///
/// A tensor that several modules read becomes a parameter for each if all its elements are
/// equal (fresh norms) or `parameters` has each; otherwise it is tied and stays one. Files
/// of neither exporter are left as they are.
///
/// Returns what was decided, a line each. Errors: InvalidInput where `parameters` cannot be
/// read, or a tensor could be several of its parameters.
diffrun::Result<std::vector<std::string>> nameParameters(ModelFile &file,
                                                         const std::string &parameters);

} // namespace diffc
