// Models as PyTorch's exporters write them, evaluated against PyTorch's own
// answer (tests/golden, made by models/export_dit_tiny.py and
// models/export_unet_tiny.py).
#include "dialects/nn/IR/Builders.h"
#include "passes/autodiff/Gradient.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <nlohmann/json.hpp>

namespace diffc::test {
namespace {

namespace ev = diffrun::evaluate;

/// The tensors of a small, trusted safetensors file.
std::map<std::string, ev::Tensor> readGolden(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(stream)), {});
  uint64_t length = 0;
  std::memcpy(&length, all.data(), 8);
  auto header = nlohmann::json::parse(all.substr(8, length));
  std::map<std::string, ev::Tensor> tensors;
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    ev::TensorType type{entry["dtype"] == "I64" ? diffrun::DType::kI64 : diffrun::DType::kF32,
                        entry["shape"].get<Ints>()};
    tensors[name] =
        ev::fromBytes(type, all.data() + 8 + length + entry["data_offsets"][0].get<size_t>());
  }
  return tensors;
}

struct Case {
  const char *model, *file;
};
std::ostream &operator<<(std::ostream &stream, const Case &c) {
  return stream << c.model << " " << c.file;
}

class Exported : public ::testing::TestWithParam<Case> {};

// The output, and the gradient of 0.5 * sum(out^2) for every parameter; each has
// PyTorch's name and layout in the file, and nothing else is a parameter.
TEST_P(Exported, EqualsPyTorch) {
  std::string stem = std::string(DIFFC_SOURCE_DIR) + "/tests/golden/" + GetParam().model + "/" +
                     GetParam().model + "_";
  auto golden = readGolden(stem + "golden.safetensors");
  auto file = ModelFile::open(stem + GetParam().file + ".onnx");
  ASSERT_TRUE(file.ok()) << file.status().message();
  mlir::MLIRContext context;
  ImportOptions options;
  options.dimensions["batch"] = 2;
  auto module = importModel(context, *file, options);
  ASSERT_TRUE(module.ok()) << module.status().message();
  auto model = *(*module)->getOps<train::ModelOp>().begin();
  auto graph = *model.getOps<train::GraphOp>().begin();
  mlir::Block &block = graph.getBody().front();

  // Attention is rewritten before it is differentiated, as in the pipeline.
  mlir::OpBuilder builder(&context);
  for (mlir::Operation &op : llvm::make_early_inc_range(block))
    if (auto attention = llvm::dyn_cast<nn::AttentionOp>(op)) {
      builder.setInsertionPoint(attention);
      attention.getResult().replaceAllUsesWith(attention.decompose(builder)[0]);
      attention.erase();
    }
  builder.setInsertionPoint(block.getTerminator());
  mlir::Value output = block.getTerminator()->getOperand(0);
  mlir::Location loc = output.getLoc();
  mlir::Value square = builder.create<nn::MulOp>(loc, output, output);
  mlir::Value sum =
      builder.create<nn::ReduceSumOp>(loc, square, llvm::ArrayRef<int64_t>{0, 1, 2, 3}, false);
  mlir::Value loss =
      builder.create<nn::MulOp>(loc, sum, nn::scalar(builder, loc, 0.5, builder.getF32Type()));
  std::vector<mlir::Value> parameters;
  std::vector<std::string> names;
  for (unsigned i = 0; i < block.getNumArguments(); ++i)
    if (auto name = graph.getArgAttrOfType<mlir::FlatSymbolRefAttr>(i, train::kParameterAttr)) {
      ASSERT_TRUE(golden.count("grad." + name.getValue().str())) << name.getValue().str();
      parameters.push_back(block.getArgument(i));
      names.push_back("grad." + name.getValue().str());
    }
  auto gradients = buildGradients(builder, loss, parameters);
  ASSERT_TRUE(mlir::succeeded(gradients));

  nn::EvaluationGraph built;
  for (mlir::Value argument : block.getArguments())
    ASSERT_TRUE(built.number(argument).ok());
  ASSERT_TRUE(built.append(block).ok());
  std::map<std::string, const onnx::TensorProto *> weights;
  for (const auto &tensor : file->graph().initializer())
    weights[tensor.name()] = &tensor;
  std::vector<std::optional<ev::Tensor>> values(built.graph().values.size());
  for (unsigned i = 0; i < block.getNumArguments(); ++i) {
    if (auto input = graph.getArgAttrOfType<mlir::StringAttr>(i, train::kInputAttr)) {
      ASSERT_TRUE(golden.count(input.str())) << input.str();
      values[i] = golden[input.str()];
      continue;
    }
    auto name = graph.getArgAttrOfType<mlir::FlatSymbolRefAttr>(i, train::kParameterAttr);
    auto bytes = file->bytes(*weights.at(name.getValue().str()));
    ASSERT_TRUE(bytes.ok());
    values[i] = ev::fromBytes(built.graph().values[i], bytes->data());
  }
  auto status = ev::evaluate(built.graph(), 0, built.graph().nodes.size(), values);
  ASSERT_TRUE(status.ok()) << status.message();
  const ev::Tensor &out = *values[*built.number(block.getTerminator()->getOperand(0))];
  const ev::Tensor &expected = golden["out"];
  ASSERT_EQ(out.type.shape, expected.type.shape);
  // Both sides are double precision on the same f32 weights; the golden is
  // rounded to f32 (6e-8 relative), and the exporter stores f32 constants
  // (position table, frequencies: up to 1e-7 of angles up to 800).
  for (size_t i = 0; i < out.real.size(); ++i)
    EXPECT_NEAR(out.real[i], expected.real[i], 1e-4 * (1 + std::fabs(expected.real[i])));

  double total = 0;
  int expectedCount = 0;
  for (auto &[name, tensor] : golden)
    if (name.rfind("grad.", 0) == 0) {
      ++expectedCount;
      for (double g : tensor.real)
        total += g * g;
    }
  int compared = 0;
  for (auto [name, gradient] : llvm::zip_equal(names, *gradients)) {
    ASSERT_TRUE(gradient) << name;
    const ev::Tensor &ours = *values[*built.number(gradient)], &theirs = golden[name];
    ASSERT_EQ(ours.type.shape, theirs.type.shape) << name;
    double difference = 0, size = 0;
    for (size_t i = 0; i < ours.real.size(); ++i) {
      difference += std::pow(ours.real[i] - theirs.real[i], 2);
      size += std::pow(theirs.real[i], 2);
    }
    EXPECT_LE(std::sqrt(difference), 1e-4 * std::sqrt(size) + 1e-5 * std::sqrt(total)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, expectedCount);
}
INSTANTIATE_TEST_SUITE_P(Exporters, Exported,
                         ::testing::Values(Case{"dit_tiny", "ts17"}, Case{"dit_tiny", "dyn18"},
                                           Case{"dit_tiny", "dyn20"}, Case{"dit_tiny", "dyn21"},
                                           Case{"dit_tiny", "dyn23"}, Case{"unet_tiny", "ts17"},
                                           Case{"unet_tiny", "dyn18"}, Case{"unet_tiny", "dyn21"},
                                           Case{"unet_tiny", "dyn23"}));

} // namespace
} // namespace diffc::test
