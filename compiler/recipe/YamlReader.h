// Strict reading of YAML maps: every key must be known, every value of its type.
#pragma once

#include "runtime/core/Status.h"

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <vector>

namespace diffc {

/// Reads one YAML map. Each get* call declares a key; finish() refuses keys
/// that none declared. The first error sticks and is what finish() returns.
class YamlReader {
public:
  /// `where` is the dotted path of the map ("optimizer"), empty at the top.
  YamlReader(YAML::Node node, std::string file, std::string where);

  void get(const std::string &key, std::string &value, std::vector<std::string> allowed = {});
  void get(const std::string &key, double &value, double low, double high);
  void get(const std::string &key, int64_t &value, int64_t low, int64_t high);
  void get(const std::string &key, bool &value);
  void get(const std::string &key, std::vector<std::string> &values);
  void get(const std::string &key, std::vector<double> &values, double low, double high);
  void getMap(const std::string &key, const std::function<diffrun::Status(YamlReader &)> &read);
  void getList(const std::string &key, const std::function<diffrun::Status(YamlReader &)> &read);
  /// Each key of this map with its node, whatever it is called.
  void forEach(const std::function<diffrun::Status(const std::string &, YAML::Node)> &read);
  /// The same where each value is itself a map to be read strictly.
  diffrun::Status
  forEachMap(const std::function<diffrun::Status(const std::string &, YamlReader &)> &read);
  /// A key that is known but does nothing yet: only these values are taken.
  void only(const std::string &key, std::vector<std::string> values);

  /// Refuses a known key that would do nothing here, with `why`.
  void refuse(const std::string &key, const std::string &why, const std::string &help = {});

  /// The first error, or an unknown key with its nearest known one.
  diffrun::Status finish() const;
  diffrun::Status fail(const YAML::Node &at, const std::string &what,
                       const std::string &help = {}) const;
  const std::string &path() const { return where; }

private:
  YAML::Node find(const std::string &key);
  std::string full(const std::string &key) const;
  void note(diffrun::Status status);

  YAML::Node node;
  std::string file, where;
  std::vector<std::string> known;
  diffrun::Status first;
  bool open = false; ///< forEach was called: any key goes
};

} // namespace diffc
