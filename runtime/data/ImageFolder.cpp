// Folders of PNG and JPEG files.
#include "runtime/data/Dataset.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

namespace diffrun {
namespace {

namespace fs = std::filesystem;

// A name for a message: bytes that would break a log line are escaped.
std::string printable(const std::string &name) {
  std::string result;
  for (unsigned char c : name) {
    if (c >= 0x20 && c < 0x7F && c != '\\') {
      result.push_back(static_cast<char>(c));
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", c);
    result += escaped;
  }
  return result;
}

bool isPicture(const std::string &name) {
  size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0)
    return false;
  std::string ending = name.substr(dot + 1);
  for (char &c : ending)
    if (c >= 'A' && c <= 'Z')
      c += 'a' - 'A';
  return ending == "png" || ending == "jpg" || ending == "jpeg";
}

bool isJpeg(const std::vector<uint8_t> &bytes) {
  return bytes.size() > 2 && bytes[0] == 0xFF && bytes[1] == 0xD8;
}

// The decoder fills what a cut JPEG lacks with grey and reports nothing: a
// whole one has an end marker after its last scan.
bool hasEndMarker(const std::vector<uint8_t> &bytes) {
  for (size_t i = bytes.size() - 1; i > 2; --i)
    if (bytes[i - 1] == 0xFF && bytes[i] == 0xD9)
      return true;
  return false;
}

class ImageFolder : public Dataset {
public:
  ImageFolder(std::string root, ImageShape shape) : root(std::move(root)), shape(shape) {}

  Status scan() {
    std::error_code error;
    collect("", error);
    if (error)
      return Status::invalid(root + ": cannot read: " + error.message());
    std::sort(files.begin(), files.end());
    if (files.empty())
      return Status::invalid(root + ": no pictures (*.png, *.jpg, *.jpeg)");
    std::map<std::string, int64_t> found;
    for (const std::string &file : files)
      if (size_t slash = file.find('/'); slash != std::string::npos)
        found.emplace(file.substr(0, slash), 0);
    for (auto &[name, number] : found) {
      number = static_cast<int64_t>(names.size());
      names.push_back(printable(name));
    }
    for (const std::string &file : files) {
      size_t slash = file.find('/');
      labels.push_back(slash == std::string::npos ? 0 : found[file.substr(0, slash)]);
    }
    return {};
  }

  int64_t size() const override { return static_cast<int64_t>(files.size()); }
  const std::vector<std::string> &classes() const override { return names; }
  int64_t label(int64_t index) const override { return labels[static_cast<size_t>(index)]; }
  std::string describe() const override {
    return printable(root) + ": " + std::to_string(files.size()) + " pictures, " +
           std::to_string(names.size()) + " classes, " + std::to_string(ignored) +
           " other names ignored";
  }

  Status decode(int64_t index, bool flip, float *out) const override {
    std::string path = root + "/" + files[static_cast<size_t>(index)];
    std::ifstream stream(path, std::ios::binary);
    std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(stream)), {});
    if (!stream || bytes.empty())
      return Status::invalid(printable(path) + ": cannot be read");
    if (isJpeg(bytes) && !hasEndMarker(bytes))
      return Status::invalid(printable(path) + ": the JPEG is cut");
    try {
      return convert(cv::imdecode(bytes, cv::IMREAD_COLOR | cv::IMREAD_ANYDEPTH), path, flip, out);
    } catch (const cv::Exception &failure) {
      return Status::invalid(printable(path) + ": cannot be decoded: " + failure.err);
    }
  }

private:
  void collect(const std::string &relative, std::error_code &error) {
    for (fs::directory_iterator it(root + "/" + relative, error), end; !error && it != end;
         it.increment(error)) {
      std::string name = it->path().filename().string();
      std::error_code kind;
      bool link = it->is_symlink(kind);
      if (name[0] == '.') {
        ++ignored;
      } else if (it->is_directory(kind)) {
        if (link)
          ++ignored;
        else
          collect(relative + name + "/", error);
      } else if (it->is_regular_file(kind) && isPicture(name)) {
        files.push_back(relative + name);
      } else {
        ++ignored;
      }
    }
  }

  Status convert(cv::Mat picture, const std::string &path, bool flip, float *out) const {
    if (picture.empty())
      return Status::invalid(printable(path) + ": cannot be decoded");
    double full = picture.depth() == CV_16U ? 65535.0 : 255.0;
    if (picture.depth() != CV_16U && picture.depth() != CV_8U)
      return Status::invalid(printable(path) + ": has an unsupported depth");
    cv::Mat floats;
    picture.convertTo(floats, CV_32F, 1.0 / full);
    auto height = static_cast<int>(shape.height), width = static_cast<int>(shape.width);
    if (floats.rows != height || floats.cols != width) {
      double scale = std::max(double(height) / floats.rows, double(width) / floats.cols);
      cv::Size size(std::max(width, int(std::lround(floats.cols * scale))),
                    std::max(height, int(std::lround(floats.rows * scale))));
      cv::Mat resized;
      cv::resize(floats, resized, size, 0, 0, scale < 1 ? cv::INTER_AREA : cv::INTER_CUBIC);
      floats =
          resized(cv::Rect((size.width - width) / 2, (size.height - height) / 2, width, height))
              .clone();
    }
    if (shape.channels == 1) {
      cv::Mat gray;
      cv::cvtColor(floats, gray, cv::COLOR_BGR2GRAY);
      floats = gray;
    } else if (shape.channels != 3) {
      return Status::invalid(printable(path) +
                             ": a picture gives 1 or 3 channels, the model takes " +
                             std::to_string(shape.channels));
    }
    int64_t channels = shape.channels;
    for (int64_t c = 0; c < channels; ++c)
      for (int y = 0; y < height; ++y) {
        const float *row = floats.ptr<float>(y);
        float *to = out + (c * height + y) * width;
        for (int x = 0; x < width; ++x) {
          float value = row[x * channels + (channels - 1 - c)]; // BGR to RGB
          to[flip ? width - 1 - x : x] = std::clamp(value, 0.0f, 1.0f) * 2.0f - 1.0f;
        }
      }
    return {};
  }

  std::string root;
  ImageShape shape;
  std::vector<std::string> files; // relative, sorted by bytes
  std::vector<int64_t> labels;
  std::vector<std::string> names;
  int64_t ignored = 0;
};

} // namespace

Result<std::unique_ptr<Dataset>> openImageFolder(const std::string &folder, ImageShape shape) {
  auto dataset = std::make_unique<ImageFolder>(folder, shape);
  DIFFRUN_RETURN_IF_ERROR(dataset->scan());
  return std::unique_ptr<Dataset>(std::move(dataset));
}

} // namespace diffrun
