// Tensors in a file beside the model.
#include "tests/unit/import/OnnxBuilder.h"

namespace diffc::test {
namespace {

class ExternalData : public ::testing::Test {
protected:
  void SetUp() override {
    folder = ::testing::TempDir() + "/external_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder);
    writeData(12);
  }
  void writeData(int floats) {
    std::ofstream stream(folder + "/w.bin", std::ios::binary);
    for (int i = 0; i < floats; ++i) {
      float value = static_cast<float>(i) / 8;
      stream.write(reinterpret_cast<const char *>(&value), sizeof(value));
    }
  }
  /// The bytes of a float[count] with the given keys.
  diffrun::Result<std::string> load(int64_t count, const std::map<std::string, std::string> &keys) {
    OnnxBuilder b(17);
    auto &tensor = b.floats("A", {count}, {});
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (auto &[key, value] : keys) {
      auto *entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    DIFFRUN_ASSIGN(ModelFile file, ModelFile::open(b.save(folder)));
    return file.bytes(file.graph().initializer(0));
  }
  std::string folder;
};

TEST_F(ExternalData, OffsetsAndDefaultLength) {
  auto a = load(4, {{"location", "w.bin"}, {"offset", "0"}, {"length", "16"}});
  auto b = load(8, {{"location", "w.bin"}, {"offset", "16"}});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(reinterpret_cast<const float *>(a->data())[3], 3 / 8.0f);
  EXPECT_EQ(reinterpret_cast<const float *>(b->data())[0], 4 / 8.0f);
  EXPECT_EQ(reinterpret_cast<const float *>(b->data())[7], 11 / 8.0f);
}

TEST_F(ExternalData, FaultsNameTensorAndFile) {
  expectError(load(4, {{"location", "w.bin"}, {"length", "12"}}), {"\"A\"", "12 bytes"});
  expectError(load(4, {{"location", "w.bin"}, {"offset", "40"}}), {"\"A\"", "w.bin"});
  expectError(load(4, {{"location", "w.bin"}, {"offset", "abc"}}), {"\"A\"", "\"abc\""});
  expectError(load(4, {{"location", "nowhere.bin"}}), {"\"A\"", "nowhere.bin is missing"});
  expectError(load(4, {{"location", "../w.bin"}}), {"\"A\"", "leaves the model's folder"});
  expectError(load(4, {{"location", "/etc/passwd"}}), {"\"A\"", "relative"});
  writeData(10);
  expectError(load(8, {{"location", "w.bin"}, {"offset", "16"}}), {"\"A\"", "which has 40"});
}

} // namespace
} // namespace diffc::test
