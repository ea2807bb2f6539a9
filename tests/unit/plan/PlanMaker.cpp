#include "tests/unit/plan/PlanMaker.h"

#include "runtime/plan/LoadedPlan.h"

#include <fstream>
#include <sstream>

namespace diffrun {
namespace {

template <typename List> void fill(List *list, const std::vector<int64_t> &values) {
  list->Clear();
  for (int64_t value : values)
    list->Add(value);
}

std::vector<int64_t> shapeOf(const proto::TensorType &type) {
  return {type.shape().begin(), type.shape().end()};
}

void setIntegers(proto::Node &node, const std::string &key, const std::vector<int64_t> &values) {
  auto &list = *(*node.mutable_attributes())[key].mutable_integers();
  for (int64_t value : values)
    list.add_values(value);
}

} // namespace

proto::TensorType tensorOf(proto::DType dtype, std::vector<int64_t> shape) {
  proto::TensorType type;
  type.set_dtype(dtype);
  fill(type.mutable_shape(), shape);
  return type;
}

PlanMaker::PlanMaker() {
  made.set_version(kPlanVersion);
  made.set_name("test");
  made.mutable_target()->set_level("avx2");
  made.mutable_target()->add_features("avx2");
  made.mutable_target()->set_team(2);
  for (const char *name : {"state", "constants", "arena"})
    made.add_spaces()->set_name(name);
  made.mutable_spaces(kArena)->set_lifetime(proto::Space::ENTRY);
}

proto::Buffer PlanMaker::take(Space space, int64_t bytes) {
  proto::Buffer buffer;
  buffer.set_space(space);
  buffer.set_offset(used[space]);
  buffer.set_bytes(bytes);
  used[space] += (bytes + kPlanAlignment - 1) / kPlanAlignment * kPlanAlignment;
  return buffer;
}

int64_t PlanMaker::newValue(const proto::TensorType &type) {
  *entry().mutable_program()->add_values() = type;
  return entry().program().values_size() - 1;
}

void PlanMaker::beginEntry(const std::string &name) {
  made.add_entries()->set_name(name);
  entry().set_model("model");
  nextNode = 0;
}

PlanValue PlanMaker::input(const std::string &role, const proto::TensorType &type) {
  PlanValue value = place(type);
  proto::Input &made = *entry().add_inputs();
  made.set_name(role);
  made.set_role(role);
  *made.mutable_type() = type;
  *made.mutable_buffer() = value.buffer;
  entry().add_input_values(value.id);
  return value;
}

PlanValue PlanMaker::scalar(const std::string &name, proto::DType dtype, double initial) {
  PlanValue value = input(name, tensorOf(dtype, {}));
  proto::Input &made = *entry().mutable_inputs(entry().inputs_size() - 1);
  made.clear_role();
  made.set_scalar(true);
  made.set_initial(initial);
  return value;
}

uint32_t PlanMaker::slot(const std::string &parameter, const std::string &role,
                         const proto::TensorType &type, const std::string &model) {
  proto::Slot &slot = *made.add_slots();
  slot.set_model(model);
  slot.set_parameter(parameter);
  slot.set_role(role);
  *slot.mutable_type() = type;
  *slot.mutable_buffer() = take(kState, bytesOf(type));
  return static_cast<uint32_t>(made.slots_size()) - 1;
}

PlanValue PlanMaker::read(uint32_t slot) {
  const proto::Slot &from = made.slots(static_cast<int>(slot));
  PlanValue value{newValue(from.type()), from.type(), from.buffer()};
  proto::SlotUse &use = *entry().add_reads();
  use.set_slot(slot);
  use.set_value(value.id);
  return value;
}

void PlanMaker::commit(uint32_t slot, const PlanValue &value) {
  proto::SlotUse &use = *entry().add_commits();
  use.set_slot(slot);
  use.set_value(value.id);
}

void PlanMaker::output(const std::string &name, const PlanValue &value) {
  proto::Output &output = *entry().add_outputs();
  output.set_name(name);
  *output.mutable_type() = value.type;
  *output.mutable_buffer() = value.buffer;
  entry().add_output_values(value.id);
}

PlanValue PlanMaker::constant(const evaluate::Tensor &tensor) {
  proto::TensorType type =
      tensorOf(static_cast<proto::DType>(tensor.type.dtype), tensor.type.shape);
  PlanValue value{newValue(type), type, take(kConstants, bytesOf(type))};
  std::string bytes(static_cast<size_t>(bytesOf(type)), '\0');
  evaluate::toBytes(tensor, bytes.data());
  constants.resize(static_cast<size_t>(value.buffer.offset()), '\0');
  constants += bytes;
  proto::Constant &data =
      *(*node("nn.constant", {}, {value}).mutable_attributes())["value"].mutable_tensor();
  *data.mutable_type() = type;
  data.set_data(bytes);
  nextNode = entry().program().nodes_size();
  return value;
}

PlanValue PlanMaker::integer(int64_t value) {
  evaluate::Tensor tensor({DType::kI64, {}});
  tensor.integer[0] = value;
  return constant(tensor);
}

PlanValue PlanMaker::place(const proto::TensorType &type) {
  return {newValue(type), type, take(kArena, bytesOf(type))};
}

PlanValue PlanMaker::placeAt(const PlanValue &other) {
  return {newValue(other.type), other.type, other.buffer};
}

proto::Node &PlanMaker::node(const std::string &op, const std::vector<PlanValue> &operands,
                             const std::vector<PlanValue> &results) {
  proto::Node &node = *entry().mutable_program()->add_nodes();
  node.set_op(op);
  node.set_location("node" + std::to_string(entry().program().nodes_size()));
  for (const PlanValue &operand : operands)
    node.add_operands(operand.id);
  for (const PlanValue &result : results)
    node.add_results(result.id);
  return node;
}

proto::Op &PlanMaker::op(const std::string &label, const std::vector<PlanValue> &operands,
                         const std::vector<PlanValue> &results) {
  proto::Op &op = *entry().add_ops();
  op.set_label(label);
  op.set_location("where/" + label);
  for (const PlanValue &operand : operands) {
    *op.add_operands() = operand.buffer;
    op.add_operand_values(operand.id);
  }
  for (const PlanValue &result : results) {
    *op.add_results() = result.buffer;
    op.add_result_values(result.id);
  }
  op.set_first_node(nextNode);
  op.set_node_count(entry().program().nodes_size() - nextNode);
  nextNode = entry().program().nodes_size();
  return op;
}

PlanValue PlanMaker::matmul(const PlanValue &a, const PlanValue &b, bool transposeA,
                            bool transposeB) {
  auto matrix = [](const PlanValue &value, bool transposed, size_t rank) {
    std::vector<int64_t> shape = shapeOf(value.type);
    std::vector<int64_t> strides = evaluate::rowMajorStrides(shape);
    size_t n = shape.size();
    if (transposed) {
      std::swap(shape[n - 1], shape[n - 2]);
      std::swap(strides[n - 1], strides[n - 2]);
    }
    while (shape.size() < rank) {
      strides.insert(strides.begin(), shape[0] * strides[0]);
      shape.insert(shape.begin(), 1);
    }
    return std::pair(shape, strides);
  };
  size_t rank = std::max(a.type.shape_size(), b.type.shape_size());
  auto [aShape, aStrides] = matrix(a, transposeA, rank);
  auto [bShape, bStrides] = matrix(b, transposeB, rank);
  std::vector<int64_t> shape(rank);
  for (size_t i = 0; i + 2 < rank; ++i)
    shape[i] = std::max(aShape[i], bShape[i]);
  shape[rank - 2] = aShape[rank - 2];
  shape[rank - 1] = bShape[rank - 1];
  PlanValue c = place(f32(shape));
  proto::Node &n = node("nn.matmul", {a, b}, {c});
  (*n.mutable_attributes())["transpose_a"].set_integer(transposeA);
  (*n.mutable_attributes())["transpose_b"].set_integer(transposeB);
  proto::Matmul &m = *op("matmul", {a, b}, {c}).mutable_matmul();
  fill(m.mutable_a_shape(), aShape);
  fill(m.mutable_a_strides(), aStrides);
  fill(m.mutable_b_shape(), bShape);
  fill(m.mutable_b_strides(), bStrides);
  fill(m.mutable_c_shape(), shape);
  m.set_dtype(proto::F32);
  return c;
}

PlanValue PlanMaker::draw(const std::string &distribution, const std::vector<int64_t> &shape,
                          uint32_t stream, const PlanValue &seed, const PlanValue &iteration) {
  PlanValue zero = integer(0), result = place(f32(shape));
  proto::Node &n = node("train.draw", {seed, iteration, zero}, {result});
  (*n.mutable_attributes())["use"].set_integer(stream);
  (*n.mutable_attributes())["distribution"].set_text(distribution);
  proto::Draw &d = *op("draw", {seed, iteration, zero}, {result}).mutable_draw();
  d.set_distribution(distribution == "uniform" ? proto::Draw::UNIFORM : proto::Draw::NORMAL);
  d.set_stream(stream);
  d.set_samples(shape[0]);
  int64_t elements = 1;
  for (size_t i = 1; i < shape.size(); ++i)
    elements *= shape[i];
  d.set_elements(elements);
  return result;
}

PlanValue PlanMaker::launch(const std::string &symbol, int64_t chunks, const std::string &nodeOp,
                            const std::vector<PlanValue> &operands, bool inPlace) {
  PlanValue result = inPlace ? placeAt(operands[0]) : place(operands[0].type);
  node(nodeOp, operands, {result});
  proto::Op &made = op(symbol, operands, {result});
  made.mutable_launch()->set_symbol(symbol);
  made.mutable_launch()->set_chunks(chunks);
  return result;
}

void PlanMaker::copy(const PlanValue &from, uint32_t toSlot) {
  PlanValue to = from;
  to.buffer = made.slots(static_cast<int>(toSlot)).buffer();
  op("copy", {from}, {to}).mutable_copy();
  commit(toSlot, from);
}

void PlanMaker::addCode() {
  std::ifstream file(DIFFRUN_TEST_KERNELS, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  made.set_code(bytes.str());
}

proto::Plan PlanMaker::finish() {
  constants.resize(static_cast<size_t>(used[kConstants]), '\0');
  made.mutable_spaces(kConstants)->set_data(constants);
  for (int space : {kState, kConstants, kArena})
    made.mutable_spaces(space)->set_bytes(used[space]);
  for (proto::Entry &entry : *made.mutable_entries())
    entry.set_arena_bytes(used[kArena]);
  return made;
}

proto::Convolution convolutionOf(proto::Convolution::Kind kind, std::vector<int64_t> x,
                                 std::vector<int64_t> w, std::vector<int64_t> strides,
                                 std::vector<int64_t> padsLow, std::vector<int64_t> padsHigh,
                                 std::vector<int64_t> dilations, int64_t groups) {
  proto::Convolution c;
  std::vector<int64_t> y{x[0], w[0]};
  for (size_t i = 0; i < strides.size(); ++i)
    y.push_back(
        (x[i + 2] + padsLow[i] + padsHigh[i] - dilations[i] * (w[i + 2] - 1) - 1) / strides[i] + 1);
  c.set_kind(kind);
  fill(c.mutable_x_shape(), x);
  fill(c.mutable_w_shape(), w);
  fill(c.mutable_y_shape(), y);
  fill(c.mutable_strides(), strides);
  fill(c.mutable_pads_low(), padsLow);
  fill(c.mutable_pads_high(), padsHigh);
  fill(c.mutable_dilations(), dilations);
  c.set_groups(groups);
  c.set_dtype(proto::F32);
  return c;
}

PlanValue addConvolution(PlanMaker &maker, const proto::Convolution &c, const PlanValue &first,
                         const PlanValue &second) {
  auto of = [](const auto &shape) { return f32({shape.begin(), shape.end()}); };
  const char *op = "nn.convolution";
  proto::TensorType type = of(c.y_shape());
  if (c.kind() == proto::Convolution::INPUT_GRAD) {
    op = "nn.convolution_input_grad";
    type = of(c.x_shape());
  } else if (c.kind() == proto::Convolution::WEIGHT_GRAD) {
    op = "nn.convolution_weight_grad";
    type = of(c.w_shape());
  }
  PlanValue result = maker.place(type);
  proto::Node &node = maker.node(op, {first, second}, {result});
  auto list = [](const auto &values) { return std::vector<int64_t>(values.begin(), values.end()); };
  setIntegers(node, "strides", list(c.strides()));
  setIntegers(node, "pads_low", list(c.pads_low()));
  setIntegers(node, "pads_high", list(c.pads_high()));
  setIntegers(node, "dilations", list(c.dilations()));
  (*node.mutable_attributes())["groups"].set_integer(c.groups());
  *maker.op("convolution", {first, second}, {result}).mutable_convolution() = c;
  return result;
}

proto::Plan samplePlan(bool withCode) {
  PlanMaker maker;
  uint32_t w = maker.slot("fc.weight", "weight", f32({6, 4}));
  uint32_t average = maker.slot("fc.weight", "ema0", f32({6, 4}));
  uint32_t iteration = maker.slot("iteration", "value", tensorOf(proto::I64, {}), "");

  maker.beginEntry("init");
  PlanValue seed = maker.scalar("seed", proto::I64, 3), zero = maker.integer(0);
  PlanValue drawn = maker.draw("normal", {6, 4}, 70, seed, zero);
  maker.copy(drawn, w);
  maker.copy(drawn, average);

  maker.beginEntry("step");
  seed = maker.scalar("seed", proto::I64, 3);
  PlanValue clean = maker.input("clean", f32({2, 3, 5, 5}));
  PlanValue rows = maker.input("rows", f32({8, 6}));
  PlanValue weight = maker.read(w), now = maker.read(iteration);
  PlanValue filter = maker.draw("uniform", {4, 3, 3, 3}, 1, seed, now);
  PlanValue y = addConvolution(maker,
                               convolutionOf(proto::Convolution::FORWARD, {2, 3, 5, 5},
                                             {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1),
                               clean, filter);
  PlanValue product = maker.matmul(rows, weight);
  if (withCode) {
    product = maker.launch("twice", 4, "nn.add", {product, product}, true);
    PlanValue one = maker.integer(1);
    PlanValue next = maker.placeAt(now);
    maker.node("nn.add", {now, one}, {next});
    proto::Op &op = maker.op("add_i64", {now, one}, {next});
    op.mutable_launch()->set_symbol("add_i64");
    op.mutable_launch()->set_chunks(1);
    maker.commit(iteration, next);
  }
  maker.output("y", y);
  maker.output("product", product);
  if (withCode)
    maker.addCode();
  return maker.finish();
}

} // namespace diffrun
