// One fused entry -> the plan's entry: buffers, operations, the nn program.
#pragma once

#include "compiler/codegen/KernelInfo.h"
#include "dialects/nn/IR/Evaluation.h"
#include "dialects/train/IR/TrainDialect.h"
#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

#include <functional>
#include <map>

namespace diffc {

/// What all entries of a program share: state and constants, kernels by
/// signature.
struct ProgramLayout {
  diffrun::proto::Plan *plan = nullptr;
  enum Space : uint32_t { kState = 0, kConstants = 1, kArena = 2 };

  /// The slot's index in the plan.
  std::map<std::string, uint32_t> slots;
  /// Symbol of a kernel; the same for equal signatures.
  std::function<std::string(nn::KernelOp, const KernelInfo &)> symbolOf;
  /// A place in the constants' space; equal constants share it.
  std::function<diffrun::proto::Buffer(mlir::DenseElementsAttr)> constantAt;

  static std::string slotKey(train::SlotAttr slot) {
    return (slot.getModel() + "\n" + slot.getParameter() + "\n" + slot.getRole()).str();
  }
};

/// Lowers `entry`, whose body fusion has left, into `out`. Errors: Internal.
diffrun::Status lowerEntry(train::EntryOp entry, ProgramLayout &layout, diffrun::proto::Entry &out);

/// Conversions shared with the program's lowering.
diffrun::proto::TensorType protoType(mlir::Type type);

} // namespace diffc
