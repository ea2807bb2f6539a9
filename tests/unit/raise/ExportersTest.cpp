// One model, exported by different exporters and for different opsets, is the
// same graph once it is raised (tests/golden).
#include "compiler/import/Importer.h"
#include "dialects/nn/IR/NnDialect.h"
#include "dialects/train/IR/TrainDialect.h"
#include "passes/raise/Passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mlir/Pass/PassManager.h>

#include <filesystem>

namespace diffc::test {
namespace {

using Counts = std::map<std::string, int>;

/// How often each operator stands in the model's graph after raising.
void countRaised(const std::string &path, Counts &counts) {
  auto file = ModelFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  mlir::MLIRContext context;
  ImportOptions options;
  options.dimensions["batch"] = 2;
  auto module = importModel(context, *file, options);
  ASSERT_TRUE(module.ok()) << module.status().message();
  mlir::PassManager pm(&context);
  buildRaisePipeline(pm);
  ASSERT_TRUE(mlir::succeeded(pm.run(**module)));
  (*module)->walk([&](train::GraphOp graph) {
    for (mlir::Operation &op : graph.getBody().front().without_terminator())
      ++counts[op.getName().getStringRef().str()];
  });
}

struct Model {
  const char *name;
  size_t exports;
  Counts raised; ///< what must be there
};
std::ostream &operator<<(std::ostream &stream, const Model &model) { return stream << model.name; }

class Exporters : public ::testing::TestWithParam<Model> {};

TEST_P(Exporters, LeaveTheSameOperators) {
  std::filesystem::path folder(DIFFC_SOURCE_DIR "/tests/golden");
  std::map<std::string, Counts> byFile;
  for (const auto &entry : std::filesystem::directory_iterator(folder / GetParam().name))
    if (entry.path().extension() == ".onnx") {
      ASSERT_NO_FATAL_FAILURE(
          countRaised(entry.path().string(), byFile[entry.path().filename().string()]));
    }
  ASSERT_EQ(byFile.size(), GetParam().exports);
  for (const auto &[file, counts] : byFile) {
    SCOPED_TRACE(file);
    EXPECT_EQ(counts, byFile.begin()->second) << "against " << byFile.begin()->first;
    EXPECT_THAT(counts, ::testing::IsSupersetOf(GetParam().raised));
    for (const char *part : {"nn.softmax", "nn.erf", "nn.tanh", "nn.sigmoid", "nn.pow",
                             "nn.reduce_mean", "nn.sqrt", "nn.rsqrt"})
      EXPECT_EQ(counts.count(part), 0u) << part;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Golden, Exporters,
    ::testing::Values(
        Model{"dit_tiny",
              5,
              {{"nn.layer_norm", 5}, {"nn.gelu", 2}, {"nn.silu", 2}, {"nn.attention", 2}}},
        Model{"unet_tiny", 4, {{"nn.group_norm", 21}, {"nn.silu", 19}, {"nn.attention", 4}}}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace diffc::test
