#include "compiler/import/ModelFile.h"

#include <charconv>
#include <filesystem>
#include <fstream>

using diffrun::Result;
using diffrun::Status;
using onnx::TensorProto;

namespace diffc {

int64_t elementBytes(int32_t dataType) {
  switch (dataType) {
  case TensorProto::DOUBLE:
  case TensorProto::INT64:
    return 8;
  case TensorProto::FLOAT:
  case TensorProto::INT32:
    return 4;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    return 2;
  case TensorProto::BOOL:
    return 1;
  default:
    return 0;
  }
}

Result<ModelFile> ModelFile::open(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return Status::invalid(path + ": cannot be opened", "check the path and its permissions");
  ModelFile file;
  file.filePath = path;
  file.proto = std::make_shared<onnx::ModelProto>();
  if (!file.proto->ParseFromIstream(&stream))
    return Status::invalid(path + ": is not a complete ONNX file",
                           "it may be cut short; export or copy it again");
  if (!file.proto->has_graph() || file.proto->graph().output_size() == 0)
    return Status::invalid(path + ": holds no graph with an output");
  return file;
}

int64_t ModelFile::opset() const {
  int64_t version = 0;
  for (const auto &set : proto->opset_import())
    if (set.domain().empty() || set.domain() == "ai.onnx")
      version = set.version();
  return version;
}

namespace {

template <typename T> bool parseNumber(const std::string &text, T &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

template <typename T, typename List> void appendAs(const List &list, std::string &out) {
  for (auto element : list) {
    T value = static_cast<T>(element);
    out.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
}

/// Elements given in the typed fields instead of raw_data.
std::string typedBytes(const TensorProto &tensor) {
  std::string out;
  switch (tensor.data_type()) {
  case TensorProto::DOUBLE:
    appendAs<double>(tensor.double_data(), out);
    break;
  case TensorProto::FLOAT:
    appendAs<float>(tensor.float_data(), out);
    break;
  case TensorProto::INT64:
    appendAs<int64_t>(tensor.int64_data(), out);
    break;
  case TensorProto::INT32:
    appendAs<int32_t>(tensor.int32_data(), out);
    break;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    appendAs<uint16_t>(tensor.int32_data(), out);
    break;
  case TensorProto::BOOL:
    appendAs<uint8_t>(tensor.int32_data(), out);
    break;
  default:
    break;
  }
  return out;
}

} // namespace

Result<std::string> ModelFile::externalBytes(const TensorProto &tensor, int64_t expected) const {
  std::string location;
  int64_t offset = 0, length = expected;
  std::string where = filePath + ": tensor \"" + tensor.name() + "\"";
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset" && (!parseNumber(entry.value(), offset) || offset < 0))
      return Status::invalid(where + ": external offset \"" + entry.value() + "\" is no number");
    else if (entry.key() == "length" && (!parseNumber(entry.value(), length) || length < 0))
      return Status::invalid(where + ": external length \"" + entry.value() + "\" is no number");
  }
  std::filesystem::path relative(location);
  if (location.empty() || relative.is_absolute())
    return Status::invalid(where + ": external location \"" + location +
                           "\" must be a path relative to the model");
  for (const auto &part : relative)
    if (part == "..")
      return Status::invalid(where + ": external location \"" + location +
                             "\" leaves the model's folder");
  std::filesystem::path full = std::filesystem::path(filePath).parent_path() / relative;
  std::error_code error;
  auto size = static_cast<int64_t>(std::filesystem::file_size(full, error));
  if (error)
    return Status::invalid(where + ": its external file " + full.string() + " is missing",
                           "keep the data file beside the model");
  if (length != expected)
    return Status::invalid(where + ": external length is " + std::to_string(length) +
                           " bytes, its type and shape need " + std::to_string(expected));
  if (offset > size || length > size - offset)
    return Status::invalid(where + ": needs bytes " + std::to_string(offset) + " to " +
                           std::to_string(offset + length) + " of " + full.string() +
                           ", which has " + std::to_string(size));
  std::ifstream stream(full, std::ios::binary);
  std::string data(length, '\0');
  stream.seekg(offset);
  if (!stream.read(data.data(), length))
    return Status::invalid(where + ": " + full.string() + " cannot be read");
  return data;
}

Result<std::string> ModelFile::bytes(const TensorProto &tensor) const {
  std::string where = filePath + ": tensor \"" + tensor.name() + "\"";
  int64_t each = elementBytes(tensor.data_type()), expected = each;
  if (each == 0)
    return Status::invalid(where + " has element type " + std::to_string(tensor.data_type()) +
                           ", which diffc does not have");
  for (int64_t extent : tensor.dims())
    if (extent < 0 || __builtin_mul_overflow(expected, extent, &expected))
      return Status::invalid(where + " has impossible dimensions");
  if (tensor.data_location() == TensorProto::EXTERNAL)
    return externalBytes(tensor, expected);
  std::string data = tensor.has_raw_data() ? tensor.raw_data() : typedBytes(tensor);
  if (static_cast<int64_t>(data.size()) != expected)
    return Status::invalid(where + " holds " + std::to_string(data.size()) +
                           " bytes, its type and shape need " + std::to_string(expected));
  return data;
}

} // namespace diffc
