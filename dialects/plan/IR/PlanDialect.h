// The plan dialect: what the runtime executes.
#pragma once

#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/IR/SymbolTable.h>

namespace diffc::plan {
class StepOpInterface;

/// What the interface alone can say of a step: as many values as buffers.
mlir::LogicalResult verifyStep(mlir::Operation *op);

/// Every buffer starts at a multiple of this.
constexpr int64_t kAlignment = 64;

/// Bytes of a tensor's elements (i1 takes one); -1 where its shape is dynamic or
/// they are more than any plan holds.
int64_t byteSize(mlir::ShapedType type);
} // namespace diffc::plan

#include "dialects/plan/IR/PlanDialect.h.inc"
#include "dialects/plan/IR/PlanEnums.h.inc"
#include "dialects/plan/IR/PlanInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/IR/PlanAttributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/plan/IR/PlanOps.h.inc"

namespace diffc::plan {

/// What every step states, for those that make steps.
struct StepParts {
  std::string label, location;
  llvm::SmallVector<mlir::Attribute> inputs, outputs, scratch; ///< BufferAttr
  llvm::SmallVector<int64_t> inputValues, outputValues;
  int64_t firstNode = 0, nodeCount = 0;
  int64_t bytesRead = 0, bytesWritten = 0, flops = 0;

  llvm::SmallVector<mlir::NamedAttribute> attributes(mlir::Builder &builder) const;
};

/// Makes a step of `own` attributes and what all have.
template <typename StepOp>
StepOp createStep(mlir::OpBuilder &builder, const StepParts &parts,
                  llvm::ArrayRef<mlir::NamedAttribute> own = {}) {
  llvm::SmallVector<mlir::NamedAttribute> attributes = parts.attributes(builder);
  attributes.append(own.begin(), own.end());
  // The user's nodes lead from a diagnostic back to the model.
  mlir::Location loc = builder.getUnknownLoc();
  if (!parts.location.empty())
    loc = mlir::NameLoc::get(builder.getStringAttr(parts.location));
  return builder.create<StepOp>(loc, mlir::TypeRange(), mlir::ValueRange(), attributes);
}

} // namespace diffc::plan
