// One fused entry -> the plan's entry: buffers, operations, the nn program.
#pragma once

#include "compiler/codegen/KernelInfo.h"
#include "dialects/plan/IR/PlanDialect.h"
#include "dialects/train/IR/TrainDialect.h"
#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

#include <functional>

namespace diffc {

struct Remark {
  std::string kind, location, text;
};

/// What all entries of a program share: state and constants, kernels by
/// signature.
struct ProgramLayout {
  mlir::FlatSymbolRefAttr state, arena;                    ///< spaces
  llvm::DenseMap<mlir::Attribute, plan::BufferAttr> slots; ///< by train::SlotAttr
  /// Symbol of a kernel; the same for equal signatures.
  std::function<std::string(nn::KernelOp, const KernelInfo &)> symbolOf;
  /// A place in the constants' space; equal constants share it.
  std::function<plan::BufferAttr(mlir::DenseElementsAttr)> constantAt;
  std::vector<Remark> remarks;
};

/// Lowers `entry`, whose body fusion has left, into the new `out`; `program`
/// becomes its nn program. Errors: Internal.
diffrun::Status lowerEntry(train::EntryOp entry, ProgramLayout &layout, plan::EntryOp out,
                           diffrun::proto::Program &program);

/// The same slot in the plan's words.
plan::SlotNameAttr planSlot(train::SlotAttr slot);

} // namespace diffc
