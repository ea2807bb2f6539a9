// Reading and writing .safetensors files.
#pragma once

#include "runtime/core/DType.h"
#include "runtime/core/Status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace diffrun {

/// Element types of a file. Wider than DType: files also hold bytes.
enum class FileDType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kBool, kU8 };

/// Bytes of one element.
int64_t byteSize(FileDType dtype);
/// "F32", "BF16", ...: the spelling in the file's header.
std::string_view name(FileDType dtype);
std::optional<FileDType> fileDTypeFromName(std::string_view name);
/// How a file holds elements of a plan.
FileDType fileDType(DType dtype);

/// One tensor of an open file; `data` lives as long as the reader.
struct SafetensorsView {
  FileDType dtype = FileDType::kF32;
  std::vector<int64_t> shape;      ///< row-major; empty for a scalar
  const std::byte *data = nullptr; ///< not necessarily aligned to the element
  size_t bytes = 0;
};

/// A memory-mapped file whose header was checked in full at open().
///
/// Threads: const members from any. Movable, not copyable.
class SafetensorsReader {
public:
  SafetensorsReader() = default;
  SafetensorsReader(SafetensorsReader &&other) noexcept;
  SafetensorsReader &operator=(SafetensorsReader &&other) noexcept;
  ~SafetensorsReader();

  /// Maps `path` and checks every tensor: known dtype, shape without
  /// overflow, offsets in the file and equal to the size of the shape, no
  /// overlap and no gap, nothing after the last tensor.
  /// Errors: invalid, naming the file and the tensor.
  static Result<SafetensorsReader> open(const std::string &path);

  /// Tensor names, sorted by bytes.
  std::vector<std::string> names() const;
  /// Null if there is no such tensor.
  const SafetensorsView *find(const std::string &name) const;
  /// The header's "__metadata__" strings.
  const std::map<std::string, std::string> &metadata() const { return meta; }
  const std::string &path() const { return file; }
  /// CRC-32C of the whole file.
  uint32_t checksum() const;

private:
  Status parse();
  void close();

  std::string file;
  const std::byte *map = nullptr;
  size_t mapBytes = 0;
  std::map<std::string, SafetensorsView> tensors;
  std::map<std::string, std::string> meta;
};

/// One tensor to write; `data` has the bytes of the shape.
struct SafetensorsEntry {
  std::string name;
  FileDType dtype = FileDType::kF32;
  std::vector<int64_t> shape;
  const void *data = nullptr;
};

/// Writes whole files: temporary name beside `path`, fsync, rename, fsync of
/// the folder. Tensors are streamed from where they are, never copied.
class SafetensorsWriter {
public:
  /// Errors: invalid for a double name or a negative dimension; machine with
  /// the path when the disk is full or the folder read-only. On error `path`
  /// is as before and the temporary file is gone.
  static Status write(const std::string &path, const std::vector<SafetensorsEntry> &entries,
                      const std::map<std::string, std::string> &metadata = {});
};

} // namespace diffrun
