// The nn dialect: its operators, their interfaces and attributes.
#pragma once

#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/Interfaces/ControlFlowInterfaces.h>
#include <mlir/Interfaces/InferTypeOpInterface.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

namespace diffc::nn {
/// Bytes of a tensor type's elements in memory (i1 takes one byte).
int64_t byteSize(mlir::Type type);
/// The sum of byteSize over `types`.
int64_t totalBytes(mlir::TypeRange types);
} // namespace diffc::nn

#include "dialects/nn/IR/NnDialect.h.inc"
#include "dialects/nn/IR/NnEnums.h.inc"
#include "dialects/nn/IR/NnInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/nn/IR/NnAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/nn/IR/NnOps.h.inc"
