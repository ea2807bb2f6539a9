// IDX files, as MNIST and its relatives come.
#include "runtime/data/Dataset.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <zlib.h>

namespace diffrun {
namespace {

struct IdxArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> values;
};

// gzread reads plain files as they are.
Result<IdxArray> readIdx(const std::string &path, size_t rank) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    return Status::invalid(path + ": cannot open");
  unsigned char head[4];
  if (gzread(file.get(), head, 4) != 4 || head[0] != 0 || head[1] != 0)
    return Status::invalid(path + ": not an IDX file");
  if (head[2] != 8)
    return Status::invalid(path + ": IDX element type is not unsigned byte");
  if (head[3] != rank)
    return Status::invalid(path + ": has " + std::to_string(head[3]) + " dimensions, expected " +
                           std::to_string(rank));
  IdxArray array;
  int64_t elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    if (gzread(file.get(), head, 4) != 4)
      return Status::invalid(path + ": cut inside the header");
    int64_t dim = int64_t(head[0]) << 24 | head[1] << 16 | head[2] << 8 | head[3];
    if (__builtin_mul_overflow(elements, dim, &elements) || elements > (int64_t(1) << 40))
      return Status::invalid(path + ": its header asks for too many elements");
    array.shape.push_back(dim);
  }
  // Grown as data comes, so that a lying header costs nothing.
  constexpr int64_t kChunk = 1 << 22;
  while (static_cast<int64_t>(array.values.size()) < elements) {
    size_t had = array.values.size();
    auto want = static_cast<unsigned>(std::min<int64_t>(kChunk, elements - int64_t(had)));
    array.values.resize(had + want);
    int got = gzread(file.get(), array.values.data() + had, want);
    if (got != static_cast<int>(want))
      return Status::invalid(path + ": cut: has fewer than the " + std::to_string(elements) +
                             " bytes of its header");
  }
  if (gzread(file.get(), head, 1) != 0)
    return Status::invalid(path + ": has more bytes than its header says, or is damaged");
  return array;
}

class IdxDataset : public Dataset {
public:
  IdxDataset(std::string path, IdxArray images, IdxArray labels, ImageShape shape)
      : path(std::move(path)), images(std::move(images)), labels(std::move(labels)), shape(shape) {
    int highest = -1;
    for (uint8_t value : this->labels.values)
      highest = std::max<int>(highest, value);
    for (int i = 0; i <= highest; ++i)
      names.push_back(std::to_string(i));
  }

  int64_t size() const override { return images.shape[0]; }
  const std::vector<std::string> &classes() const override { return names; }
  int64_t label(int64_t index) const override { return labels.values[static_cast<size_t>(index)]; }

  Status decode(int64_t index, bool flip, float *out) const override {
    int64_t height = images.shape[1], width = images.shape[2];
    int64_t top = (shape.height - height) / 2, left = (shape.width - width) / 2;
    const uint8_t *pixels = images.values.data() + index * height * width;
    std::fill_n(out, shape.elements(), -1.0f);
    for (int64_t c = 0; c < shape.channels; ++c)
      for (int64_t y = 0; y < height; ++y) {
        float *row = out + (c * shape.height + top + y) * shape.width;
        for (int64_t x = 0; x < width; ++x) {
          int64_t column = left + x;
          row[flip ? shape.width - 1 - column : column] =
              static_cast<float>(pixels[y * width + x]) / 127.5f - 1.0f;
        }
      }
    return {};
  }

  std::string describe() const override {
    return path + ": " + std::to_string(size()) + " pictures " + std::to_string(images.shape[1]) +
           "x" + std::to_string(images.shape[2]) + ", " + std::to_string(names.size()) + " classes";
  }

private:
  std::string path;
  IdxArray images, labels;
  ImageShape shape;
  std::vector<std::string> names;
};

} // namespace

Result<std::unique_ptr<Dataset>> openIdx(const std::string &imagesPath,
                                         const std::string &labelsPath, ImageShape shape) {
  DIFFRUN_ASSIGN(IdxArray images, readIdx(imagesPath, 3));
  DIFFRUN_ASSIGN(IdxArray labels, readIdx(labelsPath, 1));
  if (images.shape[0] != labels.shape[0])
    return Status::invalid(labelsPath + ": has " + std::to_string(labels.shape[0]) +
                           " labels for " + std::to_string(images.shape[0]) + " pictures");
  if (images.shape[0] == 0)
    return Status::invalid(imagesPath + ": no samples");
  if (images.shape[1] > shape.height || images.shape[2] > shape.width)
    return Status::invalid(imagesPath + ": pictures of " + std::to_string(images.shape[1]) + "x" +
                           std::to_string(images.shape[2]) + " are larger than the model's " +
                           std::to_string(shape.height) + "x" + std::to_string(shape.width));
  return std::unique_ptr<Dataset>(
      new IdxDataset(imagesPath, std::move(images), std::move(labels), shape));
}

Result<std::unique_ptr<Dataset>> openDataset(const std::string &where, const std::string &split,
                                             ImageShape shape) {
  namespace fs = std::filesystem;
  if (split != "train" && split != "test")
    return Status::usage("unknown split \"" + split + "\"", "use train or test");
  std::string prefix = split == "train" ? "train" : "t10k";
  bool known = where == "fashion-mnist";
  std::vector<std::string> folders = {where};
  if (known)
    folders = {"/usr/share/datasets/fashion-mnist"};
  std::error_code error;
  for (const std::string &folder : folders)
    for (const char *suffix : {"", ".gz"}) {
      std::string images = folder + "/" + prefix + "-images-idx3-ubyte" + suffix;
      std::string labels = folder + "/" + prefix + "-labels-idx1-ubyte" + suffix;
      if (fs::exists(images, error))
        return openIdx(images, labels, shape);
    }
  if (known)
    return Status::invalid("fashion-mnist: its files are not on this machine",
                           "apt-get install dataset-fashion-mnist");
  if (!fs::is_directory(where, error))
    return Status::invalid(where + ": no such data folder",
                           "--data fashion-mnist, or a folder of IDX files or of pictures");
  return openImageFolder(where, shape);
}

} // namespace diffrun
