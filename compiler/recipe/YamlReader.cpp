#include "compiler/recipe/YamlReader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using diffrun::Status;

namespace diffc {
namespace {

size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row.back();
}

std::string join(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

template <typename T> bool convert(const YAML::Node &node, T &value) {
  return node.IsScalar() && YAML::convert<T>::decode(node, value);
}

} // namespace

YamlReader::YamlReader(YAML::Node node, std::string file, std::string where)
    : node(std::move(node)), file(std::move(file)), where(std::move(where)) {
  if (!this->node.IsMap())
    note(fail(this->node, (this->where.empty() ? "the recipe" : this->where) +
                              " must be a map of keys and values"));
}

std::string YamlReader::full(const std::string &key) const {
  return where.empty() ? key : where + "." + key;
}

void YamlReader::note(Status status) {
  if (first.ok())
    first = std::move(status);
}

Status YamlReader::fail(const YAML::Node &at, const std::string &what,
                        const std::string &help) const {
  std::string place = file;
  if (at.Mark().line >= 0)
    place += ":" + std::to_string(at.Mark().line + 1);
  return Status::invalid(place + ": " + what, help);
}

YAML::Node YamlReader::find(const std::string &key) {
  known.push_back(key);
  if (!first.ok() || !node.IsMap())
    return YAML::Node(YAML::NodeType::Undefined);
  const YAML::Node &readOnly = node;
  return readOnly[key];
}

void YamlReader::get(const std::string &key, std::string &value, std::vector<std::string> allowed) {
  YAML::Node at = find(key);
  if (!at)
    return;
  std::string text;
  if (!convert(at, text))
    return note(fail(at, full(key) + " must be a word"));
  if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), text) == allowed.end())
    return note(fail(at, fmt::format("{}: {} is not supported", full(key), text),
                     "one of: " + join(allowed)));
  value = text;
}

void YamlReader::get(const std::string &key, double &value, double low, double high) {
  YAML::Node at = find(key);
  if (!at)
    return;
  double number;
  if (!convert(at, number) || !(number >= low && number <= high))
    return note(fail(at, fmt::format("{} must be a number from {} to {}", full(key), low, high)));
  value = number;
}

void YamlReader::get(const std::string &key, int64_t &value, int64_t low, int64_t high) {
  YAML::Node at = find(key);
  if (!at)
    return;
  int64_t number;
  if (!convert(at, number) || number < low || number > high)
    return note(
        fail(at, fmt::format("{} must be a whole number from {} to {}", full(key), low, high)));
  value = number;
}

void YamlReader::get(const std::string &key, bool &value) {
  YAML::Node at = find(key);
  if (at && !convert(at, value))
    note(fail(at, full(key) + " must be true or false"));
}

void YamlReader::get(const std::string &key, std::vector<std::string> &values) {
  YAML::Node at = find(key);
  if (!at)
    return;
  values.clear();
  for (const YAML::Node &element : at) {
    std::string text;
    if (!convert(element, text))
      return note(fail(at, full(key) + " must be a list of words"));
    values.push_back(text);
  }
  if (!at.IsSequence())
    note(fail(at, full(key) + " must be a list"));
}

void YamlReader::get(const std::string &key, std::vector<double> &values, double low, double high) {
  YAML::Node at = find(key);
  if (!at)
    return;
  values.clear();
  if (!at.IsSequence())
    return note(fail(at, full(key) + " must be a list of numbers"));
  for (const YAML::Node &element : at) {
    double number;
    if (!convert(element, number) || !(number >= low && number <= high))
      return note(
          fail(at, fmt::format("{} must hold numbers from {} to {}", full(key), low, high)));
    values.push_back(number);
  }
}

void YamlReader::getMap(const std::string &key, const std::function<Status(YamlReader &)> &read) {
  YAML::Node at = find(key);
  if (!at)
    return;
  YamlReader inner(at, file, full(key));
  if (Status status = read(inner); !status)
    return note(status);
  note(inner.finish());
}

void YamlReader::getList(const std::string &key, const std::function<Status(YamlReader &)> &read) {
  YAML::Node at = find(key);
  if (!at)
    return;
  if (!at.IsSequence())
    return note(fail(at, full(key) + " must be a list"));
  for (const YAML::Node &element : at) {
    YamlReader inner(element, file, full(key));
    if (Status status = read(inner); !status)
      return note(status);
    note(inner.finish());
  }
}

void YamlReader::forEach(const std::function<Status(const std::string &, YAML::Node)> &read) {
  open = true;
  if (!first.ok() || !node.IsMap())
    return;
  for (const auto &pair : node)
    note(read(pair.first.as<std::string>(""), pair.second));
}

Status
YamlReader::forEachMap(const std::function<Status(const std::string &, YamlReader &)> &read) {
  forEach([&](const std::string &name, YAML::Node value) {
    YamlReader inner(value, file, full(name));
    DIFFRUN_RETURN_IF_ERROR(read(name, inner));
    return inner.finish();
  });
  return first;
}

void YamlReader::only(const std::string &key, std::vector<std::string> values) {
  YAML::Node at = find(key);
  std::string text;
  if (!at)
    return;
  if (!convert(at, text) || std::find(values.begin(), values.end(), text) == values.end())
    note(fail(at, full(key) + ": this value is not implemented",
              "leave it out, or one of: " + join(values)));
}

void YamlReader::refuse(const std::string &key, const std::string &why, const std::string &help) {
  if (YAML::Node at = find(key))
    note(fail(at, full(key) + " " + why, help));
}

Status YamlReader::finish() const {
  if (!first.ok() || open)
    return first;
  for (const auto &pair : node) {
    std::string key = pair.first.as<std::string>("");
    if (std::find(known.begin(), known.end(), key) != known.end())
      continue;
    auto nearest = std::min_element(known.begin(), known.end(), [&](auto &a, auto &b) {
      return editDistance(key, a) < editDistance(key, b);
    });
    std::string help = "known here: " + join(known);
    if (nearest != known.end() && editDistance(key, *nearest) <= 1 + key.size() / 3)
      help = "did you mean " + *nearest + "?";
    return fail(pair.first, "unknown key " + full(key), help);
  }
  return {};
}

} // namespace diffc
