// Functions of a model, and If: names of the graphs around, branches not taken.
#include "tests/unit/import/OnnxBuilder.h"

namespace diffc::test {
namespace {

onnx::NodeProto &addNode(google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                         const std::string &op, const std::vector<std::string> &inputs,
                         const std::string &output) {
  auto *node = nodes.Add();
  node->set_op_type(op);
  node->set_name(op + "_" + output);
  for (const std::string &name : inputs)
    node->add_input(name);
  node->add_output(output);
  return *node;
}

onnx::GraphProto branch(const std::string &output) {
  onnx::GraphProto graph;
  graph.add_output()->set_name(output);
  return graph;
}

void addConstant(onnx::GraphProto &graph, const std::string &name, float value) {
  auto *tensor = graph.add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->add_dims(1);
  tensor->add_float_data(value);
}

void setBranches(onnx::NodeProto &node, const onnx::GraphProto &yes, const onnx::GraphProto &no) {
  for (auto [name, graph] : {std::pair{"then_branch", &yes}, {"else_branch", &no}}) {
    auto *attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    *attribute->mutable_g() = *graph;
  }
}

void addBool(OnnxBuilder &b, const std::string &name, bool value) {
  auto *tensor = b.graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::BOOL);
  tensor->add_int32_data(value);
}

/// x * 2 or an unknown operator, x * 3 or x + C, x itself: their sum. Two
/// branches call a value of their own "n".
OnnxBuilder threeBranches() {
  OnnxBuilder b(17);
  b.input("x", {"2"});
  addBool(b, "t", true);
  addBool(b, "f", false);
  b.floats("C", {2}, {10, 20});
  onnx::GraphProto twice = branch("n"), foreign = branch("m"), thrice = branch("n"),
                   sum = branch("n"), itself = branch("x");
  addConstant(twice, "k", 2);
  addNode(*twice.mutable_node(), "Mul", {"x", "k"}, "n");
  addNode(*foreign.mutable_node(), "Unknown", {"x"}, "m").set_domain("elsewhere");
  addConstant(thrice, "k", 3);
  addNode(*thrice.mutable_node(), "Mul", {"x", "k"}, "n");
  addNode(*sum.mutable_node(), "Add", {"x", "C"}, "n");
  setBranches(b.node("If", {"t"}, {"a"}), twice, foreign);
  setBranches(b.node("If", {"f"}, {"b"}), thrice, sum);
  setBranches(b.node("If", {"t"}, {"c"}), itself, thrice);
  b.node("Sum", {"a", "b", "c"});
  return b;
}

TEST(If, ConstantConditions) {
  expectValues(threeBranches().run({{"x", {1, 2}}, {"C", {10, 20}}}), {2}, {14, 28});
}

TEST(If, ConditionsThatAreData) {
  OnnxBuilder b(17);
  b.input("x", {"2"});
  b.input("s", {});
  b.floats("zero", {}, {0});
  b.node("Greater", {"s", "zero"}, {"t"});
  onnx::GraphProto twice = branch("n"), other = branch("m");
  addConstant(twice, "k", 2);
  addNode(*twice.mutable_node(), "Mul", {"x", "k"}, "n");
  addNode(*other.mutable_node(), "Neg", {"x"}, "m");
  setBranches(b.node("If", {"t"}), twice, other);
  expectValues(b.run({{"x", {1, 2}}, {"s", {1}}}), {2}, {2, 4});
  expectValues(b.run({{"x", {1, 2}}, {"s", {-1}}}), {2}, {-1, -2});
}

TEST(If, BranchesOfOtherShapesAreRefused) {
  OnnxBuilder b(17);
  b.input("x", {"2"});
  b.input("s", {});
  b.floats("zero", {}, {0});
  b.node("Greater", {"s", "zero"}, {"t"});
  onnx::GraphProto vector = branch("x"), sum = branch("n");
  auto &reduce = addNode(*sum.mutable_node(), "ReduceSum", {"x"}, "n");
  OnnxBuilder::attribute(reduce, "keepdims", int64_t{0});
  setBranches(b.node("If", {"t"}), vector, sum);
  expectError(b.run({{"x", {1, 2}}, {"s", {1}}}), {"If_2", "branches differ"});
}

TEST(If, UnknownOperatorOfTheTakenBranch) {
  OnnxBuilder b = threeBranches();
  for (auto &tensor : *b.graph().mutable_initializer())
    if (tensor.name() == "t")
      tensor.set_int32_data(0, 0);
  expectError(b.run({{"x", {1, 2}}, {"C", {10, 20}}}), {"If_1/", "elsewhere.Unknown"});
}

TEST(Functions, AttributesAndOptionalInputs) {
  OnnxBuilder b(17);
  b.proto.set_ir_version(8);
  auto *function = b.proto.add_functions();
  function->set_name("Bent");
  function->set_domain("ours");
  function->add_input("x");
  function->add_input("low");
  function->add_output("y");
  function->add_attribute("slope");
  auto *set = function->add_opset_import();
  set->set_version(17);
  auto &leaky = addNode(*function->mutable_node(), "LeakyRelu", {"x"}, "h");
  auto *reference = leaky.add_attribute();
  reference->set_name("alpha");
  reference->set_type(onnx::AttributeProto::FLOAT);
  reference->set_ref_attr_name("slope");
  addNode(*function->mutable_node(), "Clip", {"h", "low"}, "y");

  b.input("x", {"3"});
  b.floats("low", {}, {-0.2});
  auto &first = b.node("Bent", {"x"}, {"a"}); // no low: nothing is clipped
  first.set_domain("ours");
  OnnxBuilder::attribute(first, "slope", 0.5f);
  auto &second = b.node("Bent", {"x", "low"}, {"h"}); // the default slope, 0.01
  second.set_domain("ours");
  auto &third = b.node("Bent", {"x", "low"}, {"c"});
  third.set_domain("ours");
  OnnxBuilder::attribute(third, "slope", 0.5f);
  b.node("Sum", {"a", "h", "c"});
  // x = -4: -2, -0.04, -0.2; x = -1: -0.5, -0.01, -0.2; x = 3: itself each time.
  expectValues(b.run({{"x", {-4, -1, 3}}}), {3}, {-2.24, -0.71, 9});
}

TEST(Functions, ThatCallThemselvesAreRefused) {
  OnnxBuilder b(17);
  auto *function = b.proto.add_functions();
  function->set_name("Again");
  function->set_domain("ours");
  function->add_input("x");
  function->add_output("y");
  addNode(*function->mutable_node(), "Again", {"x"}, "y").set_domain("ours");
  b.input("x", {"3"});
  b.node("Again", {"x"}).set_domain("ours");
  expectError(b.run({{"x", {1, 2, 3}}}), {"Again", "without end"});
}

} // namespace
} // namespace diffc::test
