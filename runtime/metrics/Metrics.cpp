#include "runtime/metrics/Metrics.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace diffrun {
namespace {

Status failed(const std::string &path) {
  return Status::machine(path + ": cannot write: " + std::strerror(errno));
}

} // namespace

MetricsFile::~MetricsFile() {
  if (file)
    std::fclose(file);
}

Status MetricsFile::open(const std::string &where, int64_t resumedStep) {
  path = where;
  long keep = 0;
  if (resumedStep > 0) {
    std::ifstream old(path);
    std::string line;
    while (std::getline(old, line) && !old.eof()) {
      auto row = nlohmann::json::parse(line, nullptr, false);
      if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer() ||
          row["step"].get<int64_t>() > resumedStep)
        break;
      keep += static_cast<long>(line.size()) + 1;
    }
  }
  file = std::fopen(path.c_str(), "ab");
  if (!file || ::ftruncate(::fileno(file), keep) != 0)
    return failed(path);
  return {};
}

Status MetricsFile::write(int64_t step, const Scalars &scalars) {
  nlohmann::ordered_json row;
  row["step"] = step;
  for (const auto &[name, value] : scalars)
    row[name] = value; // NaN and infinities become null
  std::string line = row.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file) != line.size() || std::fflush(file) != 0)
    return failed(path);
  return {};
}

Progress::Progress(int64_t firstStep, int64_t lastStep, int64_t imagesPerStep)
    : first(firstStep), last(lastStep), images(imagesPerStep),
      start(std::chrono::steady_clock::now()) {}

std::string Progress::line(int64_t step, double loss) const {
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double rate = seconds > 0 ? double(step - first) / seconds : 0;
  char text[160];
  std::snprintf(text, sizeof text, "step %lld/%lld  loss %.4f  %.2f steps/s  %.0f images/s",
                static_cast<long long>(step), static_cast<long long>(last), loss, rate,
                rate * double(images));
  std::string result = text;
  if (rate > 0) {
    auto left = static_cast<long long>(std::ceil(double(last - step) / rate));
    std::snprintf(text, sizeof text, "  %lldm%02llds left", left / 60, left % 60);
    result += text;
  }
  return result;
}

Status plotLoss(const std::string &metricsPath, const std::string &pngPath) {
  std::ifstream metrics(metricsPath);
  std::string line, points;
  while (std::getline(metrics, line)) {
    auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("step") && row.contains("loss") &&
        row["step"].is_number() && row["loss"].is_number())
      points += std::to_string(row["step"].get<int64_t>()) + " " +
                std::to_string(row["loss"].get<double>()) + "\n";
  }
  if (points.empty())
    return Status::invalid(metricsPath + ": holds no loss");
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0)
    return Status::machine("gnuplot is not installed: no loss plot", "apt-get install gnuplot-nox");
  std::string quoted;
  for (char c : pngPath)
    quoted += c == '\'' ? std::string("''") : std::string(1, c);
  std::FILE *pipe = ::popen("gnuplot 2>/dev/null", "w");
  if (!pipe)
    return failed(pngPath);
  std::string script = "set terminal png size 900,500\nset output '" + quoted +
                       "'\nset grid\nset xlabel 'step'\nset ylabel 'loss'\nset logscale y\n"
                       "$loss << EOD\n" +
                       points +
                       "EOD\n"
                       "plot $loss with dots notitle, $loss smooth bezier lw 2 title 'loss'\n";
  std::fwrite(script.data(), 1, script.size(), pipe);
  if (::pclose(pipe) != 0)
    return Status::machine(pngPath + ": gnuplot failed");
  return {};
}

} // namespace diffrun
