#include "runtime/checkpoint/Safetensors.h"

#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/core/Checksum.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace diffrun {
namespace {

using Json = nlohmann::json;

struct DTypeInfo {
  FileDType dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr DTypeInfo kDTypes[] = {
    {FileDType::kF64, "F64", 8},   {FileDType::kF32, "F32", 4}, {FileDType::kF16, "F16", 2},
    {FileDType::kBF16, "BF16", 2}, {FileDType::kI64, "I64", 8}, {FileDType::kI32, "I32", 4},
    {FileDType::kBool, "BOOL", 1}, {FileDType::kU8, "U8", 1},
};

constexpr uint64_t kMaxHeaderBytes = 100'000'000; // the format's own limit
constexpr int kMaxDepth = 4;                      // header, tensor, list; one to spare

// A name from an untrusted file, short enough for a message.
std::string quoteName(const std::string &name) {
  return "\"" + (name.size() > 200 ? name.substr(0, 200) + "..." : name) + "\"";
}

// Parses no deeper than kMaxDepth: nlohmann's parser is not recursive, but its
// values' destructors are, so depth is refused before values are built.
bool tooDeep(const char *text, size_t size) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < size; ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::optional<int64_t> asSize(const Json &value) {
  if (value.is_number_unsigned()) {
    uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX))
      return std::nullopt;
    return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

std::optional<int64_t> bytesOf(FileDType dtype, const std::vector<int64_t> &shape) {
  int64_t bytes = byteSize(dtype);
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
      return std::nullopt;
  return bytes;
}

} // namespace

int64_t byteSize(FileDType dtype) { return kDTypes[static_cast<int>(dtype)].bytes; }
std::string_view name(FileDType dtype) { return kDTypes[static_cast<int>(dtype)].name; }
FileDType fileDType(DType dtype) {
  switch (dtype) {
  case DType::kF64:
    return FileDType::kF64;
  case DType::kF32:
    return FileDType::kF32;
  case DType::kF16:
    return FileDType::kF16;
  case DType::kBF16:
    return FileDType::kBF16;
  case DType::kI64:
    return FileDType::kI64;
  case DType::kI32:
    return FileDType::kI32;
  case DType::kBool:
    return FileDType::kBool;
  }
  return FileDType::kF32;
}

std::optional<FileDType> fileDTypeFromName(std::string_view name) {
  for (const DTypeInfo &info : kDTypes)
    if (info.name == name)
      return info.dtype;
  return std::nullopt;
}

SafetensorsReader::SafetensorsReader(SafetensorsReader &&other) noexcept {
  *this = std::move(other);
}

SafetensorsReader &SafetensorsReader::operator=(SafetensorsReader &&other) noexcept {
  if (this == &other)
    return *this;
  close();
  file = std::move(other.file);
  map = std::exchange(other.map, nullptr);
  mapBytes = std::exchange(other.mapBytes, 0);
  tensors = std::move(other.tensors);
  meta = std::move(other.meta);
  return *this;
}

SafetensorsReader::~SafetensorsReader() { close(); }

void SafetensorsReader::close() {
  if (map)
    ::munmap(const_cast<std::byte *>(map), mapBytes);
  map = nullptr;
}

Result<SafetensorsReader> SafetensorsReader::open(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return Status::invalid(path + ": cannot open: " + std::strerror(errno));
  struct stat info;
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return Status::invalid(path + ": not a file");
  }
  SafetensorsReader reader;
  reader.file = path;
  reader.mapBytes = static_cast<size_t>(info.st_size);
  if (reader.mapBytes < 8) {
    ::close(descriptor);
    return Status::invalid(path + ": not a safetensors file: it has " +
                           std::to_string(reader.mapBytes) + " bytes, less than a header's length");
  }
  void *mapped = ::mmap(nullptr, reader.mapBytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  int reason = errno;
  ::close(descriptor);
  if (mapped == MAP_FAILED)
    return Status::machine(path + ": cannot map: " + std::strerror(reason));
  reader.map = static_cast<const std::byte *>(mapped);
  DIFFRUN_RETURN_IF_ERROR(reader.parse().withContext(path));
  return reader;
}

Status SafetensorsReader::parse() {
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | static_cast<uint8_t>(map[i]);
  if (headerBytes < 2 || headerBytes > kMaxHeaderBytes || headerBytes > mapBytes - 8)
    return Status::invalid("header length " + std::to_string(headerBytes) +
                           " is impossible in a file of " + std::to_string(mapBytes) + " bytes");
  const char *text = reinterpret_cast<const char *>(map) + 8;
  if (text[0] != '{')
    return Status::invalid("header is not a JSON object");
  if (tooDeep(text, headerBytes))
    return Status::invalid("header is nested too deeply");
  // The parser keeps the last of two equal keys: they are found here.
  std::set<std::string> seen;
  std::string twice;
  Json header = Json::parse(
      text, text + headerBytes,
      [&](int depth, Json::parse_event_t event, Json &parsed) {
        if (event == Json::parse_event_t::key && depth == 1 &&
            !seen.insert(parsed.get<std::string>()).second)
          twice = parsed.get<std::string>();
        return true;
      },
      /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object())
    return Status::invalid("header is not a JSON object");
  if (!twice.empty())
    return Status::invalid("tensor " + quoteName(twice) + ": named twice");

  int64_t dataBytes = static_cast<int64_t>(mapBytes - 8 - headerBytes);
  const std::byte *data = map + 8 + headerBytes;
  struct Range {
    int64_t begin, end;
    const std::string *name;
  };
  std::vector<Range> ranges;
  for (auto &[key, value] : header.items()) {
    if (key == "__metadata__") {
      if (!value.is_object())
        return Status::invalid("__metadata__ is not an object");
      for (auto &[metaKey, metaValue] : value.items()) {
        if (!metaValue.is_string())
          return Status::invalid("__metadata__ holds a value that is not a string");
        meta[metaKey] = metaValue.get<std::string>();
      }
      continue;
    }
    std::string culprit = "tensor " + quoteName(key) + ": ";
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      return Status::invalid(culprit + "needs dtype, shape and data_offsets");
    const Json &type = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    std::optional<FileDType> dtype;
    if (type.is_string())
      dtype = fileDTypeFromName(type.get_ref<const std::string &>());
    if (!dtype)
      return Status::invalid(
          culprit + "dtype " +
          type.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60) +
          " is not supported");
    SafetensorsView view;
    view.dtype = *dtype;
    if (!shape.is_array())
      return Status::invalid(culprit + "shape is not a list");
    for (const Json &dim : shape) {
      std::optional<int64_t> size = asSize(dim);
      if (!size)
        return Status::invalid(culprit + "shape holds something else than a size");
      view.shape.push_back(*size);
    }
    std::optional<int64_t> bytes = bytesOf(*dtype, view.shape);
    if (!bytes)
      return Status::invalid(culprit + "shape overflows");
    std::optional<int64_t> begin, end;
    if (offsets.is_array() && offsets.size() == 2) {
      begin = asSize(offsets[0]);
      end = asSize(offsets[1]);
    }
    if (!begin || !end)
      return Status::invalid(culprit + "data_offsets is not [begin, end]");
    if (*begin > *end || *end > dataBytes)
      return Status::invalid(culprit + "data_offsets [" + std::to_string(*begin) + ", " +
                             std::to_string(*end) + "] are outside of the " +
                             std::to_string(dataBytes) + " bytes of data; the file may be cut");
    if (*end - *begin != *bytes)
      return Status::invalid(culprit + "has " + std::to_string(*end - *begin) +
                             " bytes, its shape needs " + std::to_string(*bytes));
    view.data = data + *begin;
    view.bytes = static_cast<size_t>(*bytes);
    auto inserted = tensors.emplace(key, std::move(view)).first;
    ranges.push_back({*begin, *end, &inserted->first});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  int64_t covered = 0;
  for (const Range &range : ranges) {
    if (range.begin != covered)
      return Status::invalid(
          "tensor " + quoteName(*range.name) +
          (range.begin < covered ? ": overlaps the tensor before it" : ": unused bytes before it"));
    covered = range.end;
  }
  if (covered != dataBytes)
    return Status::invalid(std::to_string(dataBytes - covered) + " bytes after the last tensor" +
                           (ranges.empty() ? "" : " " + quoteName(*ranges.back().name)));
  return {};
}

uint32_t SafetensorsReader::checksum() const { return crc32c(map, mapBytes); }

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> result;
  for (const auto &entry : tensors)
    result.push_back(entry.first);
  return result;
}

const SafetensorsView *SafetensorsReader::find(const std::string &name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

Status SafetensorsWriter::write(const std::string &path,
                                const std::vector<SafetensorsEntry> &entries,
                                const std::map<std::string, std::string> &metadata) {
  Json header = Json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t offset = 0;
  std::vector<int64_t> sizes;
  for (const SafetensorsEntry &entry : entries) {
    std::optional<int64_t> bytes = bytesOf(entry.dtype, entry.shape);
    if (!bytes)
      return Status::invalid(path + ": tensor " + quoteName(entry.name) + ": impossible shape");
    if (header.contains(entry.name) || entry.name == "__metadata__")
      return Status::invalid(path + ": tensor " + quoteName(entry.name) + ": name is taken");
    header[entry.name] = {{"dtype", std::string(diffrun::name(entry.dtype))},
                          {"shape", entry.shape},
                          {"data_offsets", {offset, offset + *bytes}}};
    offset += *bytes;
    sizes.push_back(*bytes);
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  unsigned char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(text.size() >> (8 * i));
  AtomicFile file;
  DIFFRUN_RETURN_IF_ERROR(file.open(path));
  DIFFRUN_RETURN_IF_ERROR(file.write(length, sizeof length));
  DIFFRUN_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  for (size_t i = 0; i < entries.size(); ++i)
    DIFFRUN_RETURN_IF_ERROR(file.write(entries[i].data, static_cast<size_t>(sizes[i])));
  return file.commit();
}

} // namespace diffrun
