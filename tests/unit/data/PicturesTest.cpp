// Pictures as cameras and tools write them: orientation, bit depth, odd names.
#include "runtime/data/Dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <unistd.h>
#include <zlib.h>

namespace diffrun {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

/// A folder of this test's own, with a blank in its path.
class Pictures : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() /
             ("pictures " + std::to_string(::getpid()) + " " +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  void write(const std::string &name, const Bytes &bytes) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<long>(bytes.size()));
  }
  /// The only picture of the folder, [channels, height, width] in [0, 1].
  std::vector<float> decode(ImageShape shape) {
    auto data = openImageFolder(folder, shape);
    EXPECT_TRUE(data.ok()) << data.status().message();
    std::vector<float> out(static_cast<size_t>(shape.elements()));
    auto status = (*data)->decode(0, false, out.data());
    EXPECT_TRUE(status.ok()) << status.message();
    for (float &value : out)
      value = (value + 1) / 2;
    return out;
  }

  fs::path folder;
};

/// An APP1 segment with one TIFF entry: orientation (tag 0x0112).
Bytes exif(uint8_t orientation) {
  Bytes tiff = {'I', 'I', 42, 0, 8, 0,           0, 0, 1, 0, 0x12, 0x01, 3,
                0,   1,   0,  0, 0, orientation, 0, 0, 0, 0, 0,    0,    0};
  Bytes segment = {0xff, 0xe1, 0, static_cast<uint8_t>(2 + 6 + tiff.size()), 'E', 'x', 'i',
                   'f',  0,    0};
  segment.insert(segment.end(), tiff.begin(), tiff.end());
  return segment;
}

Bytes jpeg(const cv::Mat &picture, const Bytes &segment) {
  Bytes bytes;
  cv::imencode(".jpg", picture, bytes, {cv::IMWRITE_JPEG_QUALITY, 100});
  bytes.insert(bytes.begin() + 2, segment.begin(), segment.end());
  return bytes;
}

/// How a camera stores `upright` under an orientation (EXIF 2.3, tag 0x0112).
cv::Mat stored(const cv::Mat &upright, int orientation) {
  cv::Mat out = upright;
  if (orientation >= 5)
    cv::transpose(out, out); // 5: transposed; 6 to 8 are that with a flip
  switch (orientation) {
  case 2:
  case 8: // to be turned by 270 degrees clockwise
    cv::flip(out, out, 1);
    return out.clone();
  case 3:
  case 7:
    cv::flip(out, out, -1);
    return out.clone();
  case 4:
  case 6: // to be turned by 90 degrees clockwise
    cv::flip(out, out, 0);
    return out.clone();
  default:
    return out.clone();
  }
}

cv::Mat corners() { // 32 wide, 16 high: red, green; blue, white
  cv::Mat picture(16, 32, CV_8UC3);
  picture(cv::Rect(0, 0, 16, 8)) = cv::Scalar(0, 0, 255);
  picture(cv::Rect(16, 0, 16, 8)) = cv::Scalar(0, 255, 0);
  picture(cv::Rect(0, 8, 16, 8)) = cv::Scalar(255, 0, 0);
  picture(cv::Rect(16, 8, 16, 8)) = cv::Scalar(255, 255, 255);
  return picture;
}

TEST_F(Pictures, AreTurnedAsTheCameraSays) {
  write("a.jpg", jpeg(corners(), {}));
  std::vector<float> upright = decode({3, 16, 32});
  for (int orientation = 1; orientation <= 8; ++orientation) {
    cv::Mat turned = stored(corners(), orientation);
    EXPECT_EQ(turned.cols, orientation >= 5 ? 16 : 32);
    write("a.jpg", jpeg(turned, exif(static_cast<uint8_t>(orientation))));
    std::vector<float> seen = decode({3, 16, 32});
    double worst = 0;
    for (size_t i = 0; i < seen.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::fabs(seen[i] - upright[i])));
    EXPECT_LT(worst, 0.1) << "orientation " << orientation; // JPEG's own error
  }
}

TEST_F(Pictures, BrokenExifIsNoReasonToRefuse) {
  for (Bytes broken : {Bytes{0xff, 0xe1, 0, 10, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I'},
                       Bytes{0xff, 0xe1, 0,  18, 'E',  'x',  'i',  'f',  0, 0,
                             'I',  'I',  42, 0,  0xff, 0xff, 0xff, 0x7f, 0, 0},
                       exif(200)}) {
    write("a.jpg", jpeg(corners(), broken));
    std::vector<float> seen = decode({3, 16, 32});
    EXPECT_GT(seen[0], 0.8f); // red, where it belongs
    EXPECT_LT(seen[16 * 32], 0.2f);
  }
}

/// A PNG of grey values, `depth` bits each, as packed rows.
Bytes greyPng(uint32_t width, uint8_t depth, const Bytes &row) {
  Bytes png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  auto big = [](uint32_t x) {
    return Bytes{uint8_t(x >> 24), uint8_t(x >> 16), uint8_t(x >> 8), uint8_t(x)};
  };
  auto chunk = [&](const std::string &kind, const Bytes &data) {
    Bytes body(kind.begin(), kind.end());
    body.insert(body.end(), data.begin(), data.end());
    for (const Bytes &part :
         {big(uint32_t(data.size())), body,
          big(uint32_t(crc32(0, body.data(), static_cast<unsigned>(body.size()))))})
      png.insert(png.end(), part.begin(), part.end());
  };
  Bytes header = big(width);
  for (uint8_t byte : Bytes{0, 0, 0, 1, depth, 0, 0, 0, 0})
    header.push_back(byte);
  chunk("IHDR", header);
  Bytes raw = {0};
  raw.insert(raw.end(), row.begin(), row.end());
  uLongf size = compressBound(raw.size());
  Bytes packed(size);
  compress(packed.data(), &size, raw.data(), raw.size());
  packed.resize(size);
  chunk("IDAT", packed);
  chunk("IEND", {});
  return png;
}

TEST_F(Pictures, GreyOfEveryDepthUsesTheWholeRange) {
  write("a.png", greyPng(4, 2, {0b00011011}));
  std::vector<float> two = decode({1, 1, 4});
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(two[static_cast<size_t>(i)], i / 3.0, 1e-6);
  Bytes row;
  for (int i = 0; i < 256; ++i)
    row.push_back(static_cast<uint8_t>(i));
  write("a.png", greyPng(256, 8, row));
  std::vector<float> eight = decode({3, 1, 256});
  for (int i = 0; i < 256; ++i)
    for (int c = 0; c < 3; ++c)
      EXPECT_NEAR(eight[static_cast<size_t>(c * 256 + i)], i / 255.0, 1e-6);
}

TEST_F(Pictures, NamesOfEveryKindComeInTheOrderOfTheirBytes) {
  Bytes png = greyPng(4, 2, {0});
  const std::vector<std::string> names = {
      "IMG 1.JPG.png",   "a\nb.png",         "b.PnG",
      "caf\xc3\xa9.png", "cafe\xcc\x81.png", "\xe5\x86\x99\xe7\x9c\x9f.png",
      "\xff\xfe.png"};
  for (const std::string &name : names)
    write("one/" + name, png);
  for (const char *name : {".DS_Store", "._b.png", "notes.txt", "b.png.txt"})
    write(std::string("one/") + name, {1});
  write("two/only.png", png);
  fs::create_directories(folder / "three");
  fs::create_directory_symlink("..", folder / "one" / "loop");
  auto data = openImageFolder(folder, {1, 1, 4});
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ((*data)->size(), 8);
  EXPECT_EQ((*data)->classes(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ((*data)->label(0), 0);
  EXPECT_EQ((*data)->label(7), 1);
  EXPECT_NE((*data)->describe().find("8 pictures, 2 classes, 5 other names ignored"),
            std::string::npos)
      << (*data)->describe();
  // A name with a newline does not break the line of a message.
  write("one/a\nb.png", {1, 2, 3});
  std::vector<float> out(4);
  std::string all;
  for (int64_t i = 0; i < 8; ++i)
    if (auto status = (*data)->decode(i, false, out.data()); !status)
      all += status.message();
  EXPECT_NE(all.find("a\\x0ab.png"), std::string::npos) << all;
  EXPECT_EQ(all.find('\n'), std::string::npos);
}

} // namespace
} // namespace diffrun
