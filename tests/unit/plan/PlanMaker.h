// Small plans for the runtime's tests, made by hand: every buffer at its own
// place, every operation with the nn nodes that say what it computes.
#pragma once

#include "runtime/evaluate/Evaluate.h"
#include "runtime/plan/plan.pb.h"

#include <string>
#include <vector>

namespace diffrun {

/// A value of the entry under construction and where it is.
struct PlanValue {
  int64_t id = -1;
  proto::TensorType type;
  proto::Buffer buffer;
};

proto::TensorType tensorOf(proto::DType dtype, std::vector<int64_t> shape);
inline proto::TensorType f32(std::vector<int64_t> shape) {
  return tensorOf(proto::F32, std::move(shape));
}

class PlanMaker {
public:
  enum Space : uint32_t { kState, kConstants, kArena };

  PlanMaker();

  void beginEntry(const std::string &name);

  PlanValue input(const std::string &role, const proto::TensorType &type);
  PlanValue scalar(const std::string &name, proto::DType dtype, double initial);
  /// A new slot; its index.
  uint32_t slot(const std::string &parameter, const std::string &role,
                const proto::TensorType &type, const std::string &model = "model");
  PlanValue read(uint32_t slot);
  void commit(uint32_t slot, const PlanValue &value);
  void output(const std::string &name, const PlanValue &value);
  PlanValue constant(const evaluate::Tensor &tensor);
  PlanValue integer(int64_t value);

  /// A fresh place in the arena for a value that the next nodes make.
  PlanValue place(const proto::TensorType &type);
  /// A value at another one's place.
  PlanValue placeAt(const PlanValue &other);

  proto::Node &node(const std::string &op, const std::vector<PlanValue> &operands,
                    const std::vector<PlanValue> &results);
  /// An operation over the nodes made since the last one.
  proto::Op &op(const std::string &label, const std::vector<PlanValue> &operands,
                const std::vector<PlanValue> &results);

  PlanValue matmul(const PlanValue &a, const PlanValue &b, bool transposeA = false,
                   bool transposeB = false);
  PlanValue draw(const std::string &distribution, const std::vector<int64_t> &shape,
                 uint32_t stream, const PlanValue &seed, const PlanValue &iteration);
  /// The kernel `symbol` over `chunks` computes `nodeOp` on same-shaped operands.
  PlanValue launch(const std::string &symbol, int64_t chunks, const std::string &nodeOp,
                   const std::vector<PlanValue> &operands, bool inPlace = false);
  void copy(const PlanValue &from, uint32_t toSlot);

  /// The kernels of tests/unit/plan/Kernels.c as the plan's code.
  void addCode();

  proto::Plan finish();
  proto::Plan &plan() { return made; }
  proto::Entry &entry() { return *made.mutable_entries(made.entries_size() - 1); }

private:
  int64_t newValue(const proto::TensorType &type);
  proto::Buffer take(Space space, int64_t bytes);

  proto::Plan made;
  std::string constants;
  int64_t nextNode = 0;
  int64_t used[3] = {0, 0, 0};
};

/// A convolution by its proto; `x`, `w`, `y` are the tensors' types.
PlanValue addConvolution(PlanMaker &maker, const proto::Convolution &convolution,
                         const PlanValue &first, const PlanValue &second);
proto::Convolution convolutionOf(proto::Convolution::Kind kind, std::vector<int64_t> x,
                                 std::vector<int64_t> w, std::vector<int64_t> strides,
                                 std::vector<int64_t> padsLow, std::vector<int64_t> padsHigh,
                                 std::vector<int64_t> dilations, int64_t groups);

/// A plan that has one of everything: weights with moments, a matmul, a
/// convolution, a draw, a kernel in place, a copy, entries init and step.
proto::Plan samplePlan(bool withCode);

} // namespace diffrun
