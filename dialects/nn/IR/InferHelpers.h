// Declares one inferReturnTypes per operator from a function that returns its
// single result type.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

namespace diffc::nn {

/// Emits `parts` where a location is known; always fails.
template <typename... Parts>
mlir::LogicalResult inferError(std::optional<mlir::Location> loc, Parts &&...parts) {
  return mlir::emitOptionalError(loc, std::forward<Parts>(parts)...);
}

} // namespace diffc::nn

/// DIFFC_INFER(AddOp) { return <FailureOr<Type>>; }: `op` is the adaptor, `loc`
/// an optional location, `context` the MLIRContext.
#define DIFFC_INFER(OP)                                                                            \
  static mlir::FailureOr<mlir::Type> infer##OP(mlir::MLIRContext *context,                         \
                                               std::optional<mlir::Location> loc, OP::Adaptor op); \
  mlir::LogicalResult OP::inferReturnTypes(                                                        \
      mlir::MLIRContext *context, std::optional<mlir::Location> loc, mlir::ValueRange operands,    \
      mlir::DictionaryAttr attributes, mlir::OpaqueProperties properties,                          \
      mlir::RegionRange regions, llvm::SmallVectorImpl<mlir::Type> &types) {                       \
    auto type = infer##OP(context, loc, OP::Adaptor(operands, attributes, properties, regions));   \
    if (mlir::failed(type))                                                                        \
      return mlir::failure();                                                                      \
    types.push_back(*type);                                                                        \
    return mlir::success();                                                                        \
  }                                                                                                \
  static mlir::FailureOr<mlir::Type> infer##OP(mlir::MLIRContext *context,                         \
                                               std::optional<mlir::Location> loc, OP::Adaptor op)
