// Builds one train.entry: its inputs, reads, scalar arithmetic and commit.
#pragma once

#include "dialects/nn/IR/Builders.h"
#include "dialects/train/IR/TrainDialect.h"

#include <map>
#include <string>

namespace diffc {

/// An entry under construction. Arithmetic methods build nn operations with
/// broadcasting; constants take the element type of the other side.
class EntryBuilder {
public:
  /// Starts entry `name` at the end of `module`. `firstUse` numbers its draws,
  /// `seed` is the initial value of the plan scalar of that name.
  EntryBuilder(mlir::ModuleOp module, const std::string &name, int64_t firstUse, int64_t seed);

  mlir::OpBuilder &builder() { return b; }
  mlir::Location loc() { return entry.getLoc(); }
  mlir::Type f32() { return b.getF32Type(); }

  /// A data input, or the one of this role made before. `graphInput` is the
  /// model's input that takes it as it is, if one does.
  mlir::Value input(const std::string &role, mlir::RankedTensorType type,
                    const std::string &graphInput = "");
  /// A plan scalar: rank 0, of `element`.
  mlir::Value scalar(const std::string &name, mlir::Type element, double initial);

  /// The value of a slot at the entry's start (read once).
  mlir::Value read(const std::string &model, const std::string &parameter, const std::string &role,
                   mlir::RankedTensorType type);
  mlir::Value counter(const std::string &name) {
    return read("", name, "value", mlir::RankedTensorType::get({}, b.getI64Type()));
  }
  void commit(const std::string &model, const std::string &parameter, const std::string &role,
              mlir::Value value);
  void output(const std::string &name, mlir::Value value);

  /// [shape] f32 numbers; the seed is a plan scalar, the counters are i64
  /// scalars.
  mlir::Value draw(const std::string &distribution, llvm::ArrayRef<int64_t> shape,
                   mlir::Value iteration, mlir::Value firstSample);

  /// Copies a graph's operations; `operands` stand for its arguments.
  llvm::SmallVector<mlir::Value> inlineGraph(train::GraphOp graph, mlir::ValueRange operands);

  /// Writes the commit and the entry's type.
  void finish();

  mlir::Value c(double value) { return nn::scalar(b, loc(), value, f32()); }
  mlir::Value integer(int64_t value);
  mlir::Value table(llvm::ArrayRef<float> values);
  mlir::Value add(mlir::Value x, mlir::Value y) { return b.create<nn::AddOp>(loc(), x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return b.create<nn::SubOp>(loc(), x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return b.create<nn::MulOp>(loc(), x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return b.create<nn::DivOp>(loc(), x, y); }
  mlir::Value minimum(mlir::Value x, mlir::Value y) { return b.create<nn::MinimumOp>(loc(), x, y); }
  mlir::Value maximum(mlir::Value x, mlir::Value y) { return b.create<nn::MaximumOp>(loc(), x, y); }
  mlir::Value cast(mlir::Value x, mlir::Type element);
  /// [B] as [B, 1, ...], to go with a tensor of `rank`.
  mlir::Value perSample(mlir::Value x, int64_t rank);
  /// The mean over every dimension but the first: [B, ...] -> [B].
  mlir::Value meanOfSample(mlir::Value x);
  mlir::Value sumAll(mlir::Value x);

private:
  mlir::Value argument(mlir::RankedTensorType type, llvm::ArrayRef<mlir::NamedAttribute> attributes,
                       const std::string &name);

  mlir::OpBuilder b;
  train::EntryOp entry;
  int64_t nextUse, seed;
  std::map<std::string, mlir::Value> inputs, reads;
  llvm::SmallVector<mlir::Attribute> argumentAttributes, slots, names;
  llvm::SmallVector<mlir::Type> argumentTypes;
  llvm::SmallVector<mlir::Value> states, outputs;
};

} // namespace diffc
