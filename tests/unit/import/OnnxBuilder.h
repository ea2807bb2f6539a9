// Small ONNX models built in a test, imported and evaluated.
#pragma once

#include "compiler/import/Importer.h"
#include "dialects/nn/IR/Evaluation.h"
#include "dialects/train/IR/TrainDialect.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace diffc::test {

using Values = std::vector<double>;
using Ints = std::vector<int64_t>;

/// One model under construction; `y` is the output unless another is named.
class OnnxBuilder {
public:
  explicit OnnxBuilder(int64_t opset) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("test");
    output("y");
  }

  onnx::GraphProto &graph() { return *proto.mutable_graph(); }

  void output(const std::string &name) {
    auto *info = graph().add_output();
    info->set_name(name);
  }
  void input(const std::string &name, const std::vector<std::string> &dims,
             onnx::TensorProto::DataType element = onnx::TensorProto::FLOAT) {
    auto *info = graph().add_input();
    info->set_name(name);
    auto *tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(element);
    tensor->mutable_shape();
    for (const std::string &dim : dims)
      if (!dim.empty() && isdigit(dim[0]))
        tensor->mutable_shape()->add_dim()->set_dim_value(std::stoll(dim));
      else
        tensor->mutable_shape()->add_dim()->set_dim_param(dim);
  }
  onnx::TensorProto &floats(const std::string &name, const Ints &dims, const Values &values) {
    auto *tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t dim : dims)
      tensor->add_dims(dim);
    for (double value : values)
      tensor->add_float_data(static_cast<float>(value));
    return *tensor;
  }
  /// A parameter without data, to be drawn from a normal distribution.
  void drawn(const std::string &name, const Ints &dims, float deviation) {
    auto *sparse = graph().add_sparse_initializer();
    sparse->mutable_values()->set_name(name);
    sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
    sparse->mutable_values()->add_dims(0);
    for (int64_t dim : dims)
      sparse->add_dims(dim);
    auto *info =
        proto.training_info_size() ? proto.mutable_training_info(0) : proto.add_training_info();
    auto *draw = info->mutable_initialization()->add_node();
    draw->set_op_type("RandomNormal");
    draw->add_output(name + "_init");
    attribute(*draw, "scale", deviation);
    auto *binding = info->add_initialization_binding();
    binding->set_key(name);
    binding->set_value(name + "_init");
  }
  void ints(const std::string &name, const Ints &values) {
    auto *tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(static_cast<int64_t>(values.size()));
    for (int64_t value : values)
      tensor->add_int64_data(value);
  }
  onnx::NodeProto &node(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs = {"y"}) {
    auto *made = graph().add_node();
    made->set_op_type(op);
    made->set_name(op + "_" + std::to_string(graph().node_size()));
    for (const std::string &name : inputs)
      made->add_input(name);
    for (const std::string &name : outputs)
      made->add_output(name);
    return *made;
  }
  static void attribute(onnx::NodeProto &node, const std::string &name, int64_t value) {
    auto *made = node.add_attribute();
    made->set_name(name);
    made->set_type(onnx::AttributeProto::INT);
    made->set_i(value);
  }
  static void attribute(onnx::NodeProto &node, const std::string &name, const Ints &values) {
    auto *made = node.add_attribute();
    made->set_name(name);
    made->set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values)
      made->add_ints(value);
  }
  static void attribute(onnx::NodeProto &node, const std::string &name, float value) {
    auto *made = node.add_attribute();
    made->set_name(name);
    made->set_type(onnx::AttributeProto::FLOAT);
    made->set_f(value);
  }
  static void attribute(onnx::NodeProto &node, const std::string &name, const char *value) {
    auto *made = node.add_attribute();
    made->set_name(name);
    made->set_type(onnx::AttributeProto::STRING);
    made->set_s(value);
  }

  /// Writes the model; the path of the file.
  std::string save(const std::string &folder = ::testing::TempDir()) const {
    // Tests of other suites, and of other processes, may have this name too.
    const auto *test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string path = folder + "/" + test->test_suite_name() + "." + test->name() + "." +
                       std::to_string(getpid()) + ".onnx";
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream stream(path, std::ios::binary);
    proto.SerializeToOstream(&stream);
    return path;
  }

  /// Imports and evaluates; the outputs. `feeds` by name of input or parameter.
  diffrun::Result<std::vector<diffrun::evaluate::Tensor>>
  run(const std::map<std::string, Values> &feeds, ImportOptions options = {}) const {
    DIFFRUN_ASSIGN(ModelFile file, ModelFile::open(save()));
    mlir::MLIRContext context;
    DIFFRUN_ASSIGN(auto module, importModel(context, file, options));
    auto model = *module->getOps<train::ModelOp>().begin();
    auto graph = *model.getOps<train::GraphOp>().begin();
    nn::EvaluationGraph built;
    mlir::Block &block = graph.getBody().front();
    for (mlir::Value argument : block.getArguments())
      DIFFRUN_RETURN_IF_ERROR(built.number(argument).status());
    DIFFRUN_RETURN_IF_ERROR(built.append(block));
    std::vector<std::optional<diffrun::evaluate::Tensor>> values(built.graph().values.size());
    for (unsigned i = 0; i < block.getNumArguments(); ++i) {
      std::string name;
      if (auto input = graph.getArgAttrOfType<mlir::StringAttr>(i, train::kInputAttr))
        name = input.str();
      else
        name = graph.getArgAttrOfType<mlir::FlatSymbolRefAttr>(i, train::kParameterAttr)
                   .getValue()
                   .str();
      values[i].emplace(built.graph().values[i]);
      auto feed = feeds.find(name);
      if (feed == feeds.end() || feed->second.size() != values[i]->real.size())
        return diffrun::Status::internal("no feed of the right size for " + name);
      values[i]->real = feed->second;
    }
    DIFFRUN_RETURN_IF_ERROR(
        diffrun::evaluate::evaluate(built.graph(), 0, built.graph().nodes.size(), values));
    std::vector<diffrun::evaluate::Tensor> outputs;
    for (mlir::Value output : block.getTerminator()->getOperands()) {
      DIFFRUN_ASSIGN(int64_t id, built.number(output));
      outputs.push_back(*values[id]);
    }
    return outputs;
  }

  onnx::ModelProto proto;
};

inline void expectValues(const diffrun::Result<std::vector<diffrun::evaluate::Tensor>> &outputs,
                         const Ints &shape, const Values &expected, double tolerance = 1e-6) {
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto &tensor = outputs.value().front();
  EXPECT_EQ(tensor.type.shape, shape);
  ASSERT_EQ(tensor.real.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(tensor.real[i], expected[i], tolerance) << "element " << i;
}

template <typename T>
void expectError(const diffrun::Result<T> &result, const std::vector<std::string> &parts) {
  ASSERT_FALSE(result.ok());
  for (const std::string &part : parts)
    EXPECT_NE(result.status().message().find(part), std::string::npos)
        << "\"" << result.status().message() << "\" lacks \"" << part << "\"";
}

} // namespace diffc::test
