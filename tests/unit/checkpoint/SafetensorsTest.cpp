// Files that are good, and files whose sizes lie.
#include "runtime/checkpoint/Safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

using namespace diffrun;
using ::testing::HasSubstr;

namespace {

class SafetensorsTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("safetensors-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    path = folder / "t.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static std::string withLength(uint64_t length, const std::string &rest) {
    std::string text;
    for (int i = 0; i < 8; ++i)
      text.push_back(static_cast<char>(length >> (8 * i)));
    return text + rest;
  }
  Result<SafetensorsReader> openBytes(const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return SafetensorsReader::open(path);
  }
  Result<SafetensorsReader> openHeader(const std::string &header, size_t dataBytes) {
    return openBytes(withLength(header.size(), header + std::string(dataBytes, '\1')));
  }

  std::filesystem::path folder;
  std::string path;
};

TEST_F(SafetensorsTest, WhatIsWrittenIsRead) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  int64_t count = 7;
  ASSERT_TRUE(SafetensorsWriter::write(path,
                                       {{"a.weight", FileDType::kF32, {2, 3}, values.data()},
                                        {"count", FileDType::kI64, {}, &count},
                                        {"none", FileDType::kU8, {0, 4}, nullptr}},
                                       {{"format", "pt"}})
                  .ok());
  auto reader = SafetensorsReader::open(path);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->names(), (std::vector<std::string>{"a.weight", "count", "none"}));
  const SafetensorsView *view = reader->find("a.weight");
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(view->data, values.data(), view->bytes), 0);
  EXPECT_EQ(reader->metadata().at("format"), "pt");
  EXPECT_EQ(reader->find("b"), nullptr);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(SafetensorsTest, BrokenTensorsAreNamed) {
  struct Case {
    const char *dtype, *shape, *offsets;
  } cases[] = {
      {"F32", "[2,2]", "[0]"},
      {"F32", "[2,2]", "[16,0]"},
      {"F32", "[2,2]", "[0,1099511627776]"},
      {"F32", "[2,2]", "[-16,0]"},
      {"F32", "[2,2]", "[8,24]"},
      {"F32", "[1000,1000]", "[0,16]"},
      {"F32", "[4294967296,4294967296]", "[0,16]"},
      {"F32", "[-2,2]", "[0,16]"},
      {"F32", "\"2\"", "[0,16]"},
      {"F99", "[2,2]", "[0,16]"},
      {"F99", "[2,2]", "[1099511627776,1099511627792]"},
  };
  for (const Case &c : cases) {
    std::string header = std::string("{\"T\":{\"dtype\":\"") + c.dtype + "\",\"shape\":" + c.shape +
                         ",\"data_offsets\":" + c.offsets + "}}";
    auto reader = openHeader(header, 16);
    ASSERT_FALSE(reader.ok()) << header;
    EXPECT_THAT(reader.status().message(), HasSubstr("\"T\"")) << header;
    EXPECT_THAT(reader.status().message(), HasSubstr(path));
  }
}

TEST_F(SafetensorsTest, BrokenFilesAreRefused) {
  std::string tensor = "{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}";
  std::string good = "{\"T\":" + tensor + "}";
  ASSERT_TRUE(openHeader(good, 16).ok());
  EXPECT_FALSE(openHeader(good, 15).ok());
  EXPECT_FALSE(openHeader(good, 17).ok());
  EXPECT_FALSE(openBytes("").ok());
  std::string rest = good + std::string(16, '\1');
  for (uint64_t length : {uint64_t(0), uint64_t(7), uint64_t(1) << 63, uint64_t(rest.size() + 9)})
    EXPECT_FALSE(openBytes(withLength(length, rest)).ok()) << length;
  EXPECT_FALSE(openHeader("not JSON", 0).ok());
  EXPECT_FALSE(openHeader("[1,2]", 0).ok());
  EXPECT_FALSE(openHeader(std::string(100000, '['), 0).ok());
  EXPECT_FALSE(openHeader("{\"T\":" + std::string(100000, '['), 0).ok());
  EXPECT_THAT(openHeader("{\"A\":" + tensor + ",\"B\":" + tensor + "}", 16).status().message(),
              HasSubstr("overlaps"));
  EXPECT_FALSE(openHeader("{\"A\":" + tensor + ",\"A\":" + tensor + "}", 16).ok());
  EXPECT_FALSE(SafetensorsReader::open(path + ".missing").ok());
  EXPECT_FALSE(SafetensorsReader::open(folder).ok());
}

TEST_F(SafetensorsTest, MutationsNeverReadOutside) {
  std::vector<float> values(8, 1.5f);
  ASSERT_TRUE(SafetensorsWriter::write(path, {{"a", FileDType::kF32, {2, 2}, values.data()},
                                              {"b", FileDType::kF16, {8}, values.data()}})
                  .ok());
  std::ifstream stream(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(stream)), {});
  std::mt19937 random(1);
  int64_t sum = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (int edits = 1 + random() % 4; edits > 0 && !bytes.empty(); --edits) {
      size_t at = random() % bytes.size();
      switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = "0123456789[]{},:\"-"[random() % 18];
        break;
      case 2:
        bytes.erase(at, 1 + random() % 8);
        break;
      case 3:
        bytes.insert(at, 1, static_cast<char>(random()));
        break;
      }
    }
    auto reader = openBytes(bytes);
    if (!reader.ok())
      continue;
    for (const std::string &name : reader->names()) {
      const SafetensorsView *view = reader->find(name);
      for (size_t j = 0; j < view->bytes; ++j)
        sum += static_cast<int>(view->data[j]);
    }
  }
  EXPECT_GE(sum, 0);
}

} // namespace
