// A plan as IR, and what IR does not hold.
#pragma once

#include "dialects/plan/IR/PlanDialect.h"
#include "runtime/plan/plan.pb.h"

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/OwningOpRef.h>

#include <map>
#include <string>

namespace diffc {

/// What of a plan is only bytes, or a copy of other IR: the plan dialect says
/// its size and checksum, or its number of values and nodes.
struct PlanBlobs {
  std::string code;                                        ///< ELF shared object
  std::map<std::string, std::string> data;                 ///< by space
  std::map<std::string, diffrun::proto::Program> programs; ///< by entry
};

/// A module that holds one plan.program, and its blobs.
struct PlanParts {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PlanBlobs blobs;

  plan::ProgramOp program() { return *module->getOps<plan::ProgramOp>().begin(); }
};

} // namespace diffc
