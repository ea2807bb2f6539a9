// Names and layouts of parameters traced back through what exporters do to them.
#include "compiler/import/ParameterNames.h"
#include "runtime/checkpoint/Safetensors.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <google/protobuf/unknown_field_set.h>

namespace diffc::test {
namespace {

constexpr int kOfNode = 9, kOfGraph = 16, kOfValue = 4; // metadata_props

/// A note as torch.export leaves them.
template <typename Message>
void note(Message &of, int field, const std::string &key, const std::string &value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  of.GetReflection()->MutableUnknownFields(&of)->AddLengthDelimited(field,
                                                                    entry.SerializeAsString());
}

void named(onnx::NodeProto &node, const std::string &name) { node.set_name(name); }
void scoped(onnx::NodeProto &node, const std::string &scopes) {
  note(node, kOfNode, "pkg.torch.onnx.name_scopes", scopes);
}
void foldedFrom(OnnxBuilder &b, const std::string &name, const std::string &names) {
  auto *info = b.graph().add_value_info();
  info->set_name(name);
  note(*info, kOfValue, "pkg.onnxscript.optimizer.folded_from", names);
}
void signature(OnnxBuilder &b, const std::string &lines) {
  note(b.graph(), kOfGraph, "pkg.torch.export.ExportedProgram.graph_signature", lines);
}

/// The model after its parameters were named.
struct Named {
  explicit Named(const OnnxBuilder &b, const std::string &parameters = {}) {
    auto opened = ModelFile::open(b.save());
    EXPECT_TRUE(opened.ok());
    auto decided = nameParameters(*opened, parameters);
    status = decided.status();
    if (!decided.ok())
      return;
    for (const std::string &line : *decided)
      decisions += line + "\n";
    auto module = importModel(context, *opened, {});
    status = module.status();
    if (!module.ok())
      return;
    auto model = *(*module)->getOps<train::ModelOp>().begin();
    for (auto parameter : model.getOps<train::ParameterOp>()) {
      std::string text;
      llvm::raw_string_ostream(text) << parameter.getType();
      types[parameter.getSymName().str()] = text;
    }
    for (const auto &tensor : opened->graph().initializer())
      if (types.count(tensor.name())) {
        auto bytes = *opened->bytes(tensor);
        const auto *floats = reinterpret_cast<const float *>(bytes.data());
        values[tensor.name()].assign(floats, floats + bytes.size() / sizeof(float));
      }
  }

  mlir::MLIRContext context;
  diffrun::Status status;
  std::string decisions;
  std::map<std::string, std::string> types;
  std::map<std::string, Values> values;
};

using Types = std::map<std::string, std::string>;

/// y = x W^T, as the TorchScript exporter writes a linear layer without its bias.
OnnxBuilder torchScriptLinear() {
  OnnxBuilder b(17);
  b.input("x", {"4", "2"});
  b.floats("onnx::MatMul_5", {2, 3}, {1, 2, 3, 4, 5, 6});
  named(b.node("MatMul", {"x", "onnx::MatMul_5"}), "/blocks.0/attn/to_q/MatMul");
  return b;
}

std::string safetensors(const std::map<std::string, std::pair<Ints, std::vector<float>>> &tensors) {
  std::vector<diffrun::SafetensorsEntry> entries;
  for (const auto &[name, tensor] : tensors)
    entries.push_back({name, diffrun::FileDType::kF32, tensor.first, tensor.second.data()});
  const auto *test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string path =
      ::testing::TempDir() + "/" + test->name() + std::to_string(getpid()) + ".safetensors";
  EXPECT_TRUE(diffrun::SafetensorsWriter::write(path, entries).ok());
  return path;
}

TEST(ParameterNames, LinearLayerByItsScope) {
  Named m(torchScriptLinear());
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"blocks.0.attn.to_q.weight", "tensor<3x2xf32>"}}));
  EXPECT_EQ(m.values["blocks.0.attn.to_q.weight"], (Values{1, 4, 2, 5, 3, 6}));
}

TEST(ParameterNames, TheValueStaysWhatItWas) {
  OnnxBuilder b = torchScriptLinear();
  auto file = ModelFile::open(b.save());
  ASSERT_TRUE(nameParameters(*file, "").ok());
  OnnxBuilder renamed(17);
  renamed.proto = file->model();
  Values x{1, 0, 0, 1, 1, 1, 2, -1};
  expectValues(renamed.run({{"x", x}, {"blocks.0.attn.to_q.weight", {1, 4, 2, 5, 3, 6}}}), {4, 3},
               {1, 2, 3, 4, 5, 6, 5, 7, 9, -2, -1, 0});
}

TEST(ParameterNames, AffineOfAGroupNorm) {
  OnnxBuilder b(17);
  b.input("x", {"1", "2", "3"});
  b.floats("onnx::Mul_1", {2, 1}, {1, 2});
  b.floats("onnx::Add_2", {2, 1}, {3, 4});
  b.floats("onnx::Mul_3", {2, 1}, {5, 6}); // a factor alone: no norm's
  named(b.node("Mul", {"x", "onnx::Mul_1"}, {"a"}), "/mid/norm/Mul");
  named(b.node("Add", {"a", "onnx::Add_2"}, {"b"}), "/mid/norm/Add");
  named(b.node("Mul", {"b", "onnx::Mul_3"}), "/mid/Mul");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types,
            (Types{{"mid.norm.weight", "tensor<2xf32>"}, {"mid.norm.bias", "tensor<2xf32>"}}));
  EXPECT_EQ(m.values["mid.norm.bias"], (Values{3, 4}));
}

TEST(ParameterNames, EqualFreshTensorsAreApartAgain) {
  OnnxBuilder b(17);
  b.input("x", {"2"});
  b.floats("a.weight", {2}, {1, 1});
  b.floats("onnx::Mul_0", {2, 1}, {1, 2}); // says that it is TorchScript's
  b.node("Identity", {"a.weight"}, {"b.weight"}).set_name("Identity_7");
  b.node("Mul", {"x", "a.weight"}, {"p"});
  b.node("Mul", {"p", "b.weight"});
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"a.weight", "tensor<2xf32>"}, {"b.weight", "tensor<2xf32>"}}));
}

TEST(ParameterNames, TiedWeightsStayOne) {
  OnnxBuilder b(17);
  b.input("x", {"4", "3"});
  b.floats("emb.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  b.floats("onnx::MatMul_9", {3, 2}, {1, 4, 2, 5, 3, 6});
  b.node("Add", {"x", "x"}, {"z"});
  named(b.node("MatMul", {"z", "onnx::MatMul_9"}, {"p"}), "/head/MatMul");
  b.node("MatMul", {"p", "emb.weight"});
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"emb.weight", "tensor<2x3xf32>"}}));
  EXPECT_NE(m.decisions.find("head.weight holds the values of emb.weight"), std::string::npos);
  // The module's own list knows better: a copy, not tied.
  std::vector<float> same{1, 2, 3, 4, 5, 6};
  Named own(b, safetensors({{"emb.weight", {{2, 3}, same}}, {"head.weight", {{2, 3}, same}}}));
  ASSERT_TRUE(own.status.ok()) << own.status.message();
  EXPECT_EQ(own.types,
            (Types{{"emb.weight", "tensor<2x3xf32>"}, {"head.weight", "tensor<2x3xf32>"}}));
}

TEST(ParameterNames, AModuleCalledTwiceIsOne) {
  OnnxBuilder b(17);
  b.input("x", {"4", "2"});
  b.floats("onnx::MatMul_1", {2, 2}, {0, 0, 0, 0});
  b.floats("onnx::MatMul_2", {2, 2}, {0, 0, 0, 0});
  b.floats("onnx::MatMul_3", {2, 2}, {0, 0, 0, 0});
  named(b.node("MatMul", {"x", "onnx::MatMul_1"}, {"p"}), "/l/MatMul");
  named(b.node("MatMul", {"p", "onnx::MatMul_2"}, {"q"}), "/l_1/MatMul");
  named(b.node("MatMul", {"q", "onnx::MatMul_3"}), "/other/MatMul");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"l.weight", "tensor<2x2xf32>"}, {"other.weight", "tensor<2x2xf32>"}}));
}

TEST(ParameterNames, TorchExportSaysWhatItFolded) {
  OnnxBuilder b(21);
  b.input("x", {"4", "2"});
  signature(b, "\n# inputs\np_l_weight: PARAMETER target='l.weight'\n"
               "p_a_weight: PARAMETER target='a.weight'\np_b_weight: PARAMETER target='b.weight'\n"
               "p_b_bias: PARAMETER target='b.bias'\n"
               "b_table: BUFFER target='table' persistent=True\nx: USER_INPUT\n");
  b.floats("val_3", {2, 2}, {1, 2, 3, 4});
  b.floats("table", {2}, {7, 8});
  b.floats("a.weight", {2}, {1, 1});
  foldedFrom(b, "val_3", "['l.weight']");
  scoped(b.node("MatMul", {"x", "val_3"}, {"p"}), "['', 'l', 'linear']");
  scoped(b.node("Add", {"p", "table"}, {"q"}), "['', 'add']");
  scoped(b.node("Mul", {"q", "a.weight"}, {"r"}), "['', 'a', 'mul']");
  // The exporter stored b's fresh weight and bias as a.weight, too.
  scoped(b.node("Mul", {"r", "a.weight"}, {"s"}), "['', 'b', 'mul_1']");
  scoped(b.node("Add", {"s", "a.weight"}), "['', 'b', 'add_1']");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"l.weight", "tensor<2x2xf32>"},
                            {"a.weight", "tensor<2xf32>"},
                            {"b.weight", "tensor<2xf32>"},
                            {"b.bias", "tensor<2xf32>"}}));
  EXPECT_EQ(m.values["l.weight"], (Values{1, 3, 2, 4}));
}

TEST(ParameterNames, TorchExportsReshapedNorms) {
  OnnxBuilder b(18);
  b.input("x", {"1", "2", "3"});
  signature(b, "p: PARAMETER target='n.weight'\nq: PARAMETER target='n.bias'\n"
               "r: PARAMETER target='m.weight'\n");
  b.floats("val_1", {2, 1}, {1, 2});
  b.floats("val_2", {2, 1}, {3, 4});
  b.floats("val_3", {2, 1}, {5, 6}); // 1 + m.weight, for all that is told
  foldedFrom(b, "val_1", "['n.weight', 'val_0']");
  foldedFrom(b, "val_2", "['n.bias', 'val_0']");
  foldedFrom(b, "val_3", "['m.weight', 'val_0']");
  scoped(b.node("Mul", {"x", "val_1"}, {"a"}), "['', 'n', 'group_norm']");
  scoped(b.node("Add", {"a", "val_2"}, {"b"}), "['', 'n', 'group_norm']");
  scoped(b.node("Mul", {"b", "val_3"}), "['', 'm', 'mul']");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"n.weight", "tensor<2xf32>"},
                            {"n.bias", "tensor<2xf32>"},
                            {"val_3", "tensor<2x1xf32>"}}));
}

TEST(ParameterNames, DroppedZeroBiasesComeBack) {
  OnnxBuilder b(21);
  b.input("x", {"1", "2", "4", "4"});
  signature(b, "p: PARAMETER target='zero.weight'\nq: PARAMETER target='zero.bias'\n"
               "r: PARAMETER target='bare.weight'\n");
  b.floats("zero.weight", {3, 2, 1, 1}, {0, 0, 0, 0, 0, 0});
  b.floats("bare.weight", {1, 3, 1, 1}, {1, 2, 3});
  scoped(b.node("Conv", {"x", "zero.weight"}, {"a"}), "['', 'zero', 'conv2d']");
  scoped(b.node("Conv", {"a", "bare.weight"}), "['', 'bare', 'conv2d_1']");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"zero.weight", "tensor<3x2x1x1xf32>"},
                            {"zero.bias", "tensor<3xf32>"},
                            {"bare.weight", "tensor<1x3x1x1xf32>"}}));
  EXPECT_EQ(m.values["zero.bias"], (Values{0, 0, 0}));
  // The module's list with another bias: not what was dropped.
  Named other(b, safetensors({{"zero.weight", {{3, 2, 1, 1}, {0, 0, 0, 0, 0, 0}}},
                              {"zero.bias", {{3}, {1, 0, 0}}},
                              {"bare.weight", {{1, 3, 1, 1}, {1, 2, 3}}}}));
  ASSERT_TRUE(other.status.ok()) << other.status.message();
  EXPECT_EQ(other.types.count("zero.bias"), 0u);
}

TEST(ParameterNames, ZeroLayersAreApartAgain) {
  OnnxBuilder b(21);
  b.input("x", {"1", "2", "4", "4"});
  signature(b, "p: PARAMETER target='a.weight'\nq: PARAMETER target='a.bias'\n"
               "r: PARAMETER target='b.weight'\ns: PARAMETER target='b.bias'\n");
  b.floats("a.weight", {2, 2, 1, 1}, {0, 0, 0, 0});
  scoped(b.node("Conv", {"x", "a.weight"}, {"h"}), "['', 'a', 'conv2d']");
  scoped(b.node("Conv", {"h", "a.weight"}), "['', 'b', 'conv2d_1']");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"a.weight", "tensor<2x2x1x1xf32>"},
                            {"a.bias", "tensor<2xf32>"},
                            {"b.weight", "tensor<2x2x1x1xf32>"},
                            {"b.bias", "tensor<2xf32>"}}));
}

TEST(ParameterNames, MergedTensorsThatDifferInsideStayTied) {
  OnnxBuilder b(21);
  b.input("x", {"4", "2"});
  signature(b, "p_a: PARAMETER target='a.weight'\np_b: PARAMETER target='b.weight'\n");
  b.floats("a.weight", {2}, {1, 2});
  scoped(b.node("Mul", {"x", "a.weight"}, {"p"}), "['', 'a', 'mul']");
  scoped(b.node("Mul", {"p", "a.weight"}), "['', 'b', 'mul_1']");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"a.weight", "tensor<2xf32>"}}));
  EXPECT_NE(m.decisions.find("b.weight"), std::string::npos) << m.decisions;
}

TEST(ParameterNames, TheModulesOwnParametersByValue) {
  OnnxBuilder b(17);
  b.input("x", {"4", "2"});
  b.floats("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  b.floats("shift", {1, 3}, {7, 8, 9});
  b.floats("table", {3}, {1, 1, 2});
  b.node("MatMul", {"x", "w"}, {"p"});
  b.node("Add", {"p", "shift"}, {"q"});
  b.node("Add", {"q", "table"});
  Named m(
      b, safetensors({{"fc.weight", {{3, 2}, {1, 4, 2, 5, 3, 6}}}, {"fc.bias", {{3}, {7, 8, 9}}}}));
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"fc.weight", "tensor<3x2xf32>"}, {"fc.bias", "tensor<3xf32>"}}));
}

TEST(ParameterNames, SeveralWithTheSameValuesAreAnError) {
  OnnxBuilder b(17);
  b.input("x", {"4", "2"});
  b.floats("w", {2}, {1, 1});
  b.node("Mul", {"x", "w"});
  Named m(b, safetensors({{"a.weight", {{2}, {1, 1}}}, {"b.weight", {{2}, {1, 1}}}}));
  ASSERT_FALSE(m.status.ok());
  for (const char *part : {"\"w\"", "a.weight", "b.weight"})
    EXPECT_NE(m.status.message().find(part), std::string::npos) << m.status.message();
}

TEST(ParameterNames, OtherFilesStayAsTheyAre) {
  OnnxBuilder b(17);
  b.input("x", {"4", "2"});
  b.floats("val_3", {2, 2}, {1, 2, 3, 4});
  named(b.node("MatMul", {"x", "val_3"}), "/l/MatMul");
  Named m(b);
  ASSERT_TRUE(m.status.ok()) << m.status.message();
  EXPECT_EQ(m.types, (Types{{"val_3", "tensor<2x2xf32>"}}));
  EXPECT_EQ(m.decisions, "");
}

} // namespace
} // namespace diffc::test
