// The train dialect: models, parameters, and what surrounds them in a step.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/IR/SymbolTable.h>
#include <mlir/Interfaces/ControlFlowInterfaces.h>
#include <mlir/Interfaces/FunctionInterfaces.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

namespace diffc::train {
/// Argument attribute of train.graph: the model's own name of an input.
constexpr llvm::StringLiteral kInputAttr = "train.input";
/// Argument attribute of train.graph: the parameter's symbol.
constexpr llvm::StringLiteral kParameterAttr = "train.parameter";
/// Argument attributes of train.entry: what data it is; a plan scalar's name
/// and its initial value.
constexpr llvm::StringLiteral kRoleAttr = "train.role";
constexpr llvm::StringLiteral kScalarAttr = "train.scalar";
constexpr llvm::StringLiteral kInitialAttr = "train.initial";
} // namespace diffc::train

#include "dialects/train/IR/TrainDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/train/IR/TrainAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/train/IR/TrainOps.h.inc"
