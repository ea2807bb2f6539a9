// Pictures with labels, decoded one at a time.
#pragma once

#include "runtime/core/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace diffrun {

/// Channels, height and width that the model takes, in pixels.
struct ImageShape {
  int64_t channels = 1, height = 32, width = 32;
  int64_t elements() const { return channels * height * width; }
};

/// A fixed, ordered set of pictures. Threads: const members from any.
class Dataset {
public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// Class names, in label order; empty if there are no labels.
  virtual const std::vector<std::string> &classes() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  /// Writes picture `index` to `out`: float [C,H,W] of the model's shape, in
  /// [-1,1], mirrored left to right if `flip`.
  /// Errors: invalid, naming the file.
  virtual Status decode(int64_t index, bool flip, float *out) const = 0;
  /// One line for the log: what it is, how many were used and ignored.
  virtual std::string describe() const = 0;
};

/// Opens `where`: "fashion-mnist" (Debian's dataset-fashion-mnist), a folder
/// with IDX files, or a folder of pictures. `split` is "train" or "test".
/// Errors: invalid, naming what is missing.
Result<std::unique_ptr<Dataset>> openDataset(const std::string &where, const std::string &split,
                                             ImageShape shape);

/// IDX files (ubyte, gzip'ed or plain); smaller pictures are padded with -1
/// to the model's size, centred; one channel is repeated to the model's.
Result<std::unique_ptr<Dataset>> openIdx(const std::string &imagesPath,
                                         const std::string &labelsPath, ImageShape shape);

/// Every *.png, *.jpg, *.jpeg (any case) under `folder`, sorted by the bytes
/// of the relative path; hidden names ("." first) are ignored; links to
/// folders are not followed. The first folder of the path is the class.
/// A picture is turned upright by its EXIF, scaled so that it covers the
/// model's size, and cropped in the centre.
Result<std::unique_ptr<Dataset>> openImageFolder(const std::string &folder, ImageShape shape);

} // namespace diffrun
