// diffrun info: devices, and why one is not available.
#include "runtime/plan/CpuFeatures.h"
#include "tools/diffrun/Commands.h"

#include <dnnl.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sched.h>

namespace diffrun {
namespace {

struct Info {
  std::string cpu = "unknown", level = "none", next; ///< next: the level above, "" at the top
  std::vector<std::string> lacks;                    ///< what the level above needs besides
  int cores = 1;
  int64_t memory = 0, free = 0;
  std::string library;
  bool driver = false;
};

/// Cores that this process may run on, which a container or taskset may limit.
int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

Info collect() {
  Info info;
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      info.cpu = line.substr(line.find(": ") + 2);
      break;
    }
  for (const CpuLevel &level : cpuLevels()) {
    for (const std::string &feature : level.features)
      if (!cpuHas(feature))
        info.lacks.push_back(feature);
    if (!info.lacks.empty()) {
      info.next = level.name;
      break;
    }
    info.level = level.name;
  }
  info.cores = usableCores();
  info.memory = machineMemory();
  info.free = freeMemory();
  const dnnl_version_t *version = dnnl_version();
  info.library = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  std::error_code error;
  info.driver = std::filesystem::exists("/proc/driver/nvidia/version", error);
  return info;
}

Status print(bool json) {
  Info info = collect();
  // Plans for CUDA need a device plug-in, and none is part of this diffrun.
  std::string why = "this diffrun has no CUDA device yet; it runs plans for the CPU";
  if (json) {
    nlohmann::json out = {
        {"cpu",
         {{"available", info.level != "none"},
          {"name", info.cpu},
          {"level", info.level},
          {"next_level", info.next},
          {"next_level_lacks", info.lacks},
          {"cores", info.cores},
          {"memory_bytes", info.memory},
          {"free_bytes", info.free},
          {"onednn", info.library}}},
        {"cuda", {{"available", false}, {"reason", why}, {"nvidia_driver", info.driver}}}};
    fmt::print("{}\n", out.dump());
    return {};
  }
  constexpr double kMiB = 1048576;
  if (info.level == "none")
    fmt::print("cpu   not available: {} lacks {}, which every plan needs\n", info.cpu,
               fmt::join(info.lacks, ", "));
  else
    fmt::print("cpu   available: {}\n", info.cpu);
  fmt::print("      level {}", info.level);
  if (!info.next.empty() && info.level != "none")
    fmt::print("; {} needs {} besides", info.next, fmt::join(info.lacks, ", "));
  fmt::print("\n      {} cores for this process; memory {:.0f} MiB, {:.0f} MiB free; oneDNN {}\n",
             info.cores, static_cast<double>(info.memory) / kMiB,
             static_cast<double>(info.free) / kMiB, info.library);
  fmt::print("cuda  not available: {}\n      NVIDIA driver: {}\n", why,
             info.driver ? "loaded" : "not loaded");
  return {};
}

} // namespace

Action addInfo(CLI::App &app) {
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("info", "What this machine can run");
  command->add_flag("--json", *json, "one JSON line");
  return [=] { return command->parsed() ? print(*json) : Status(); };
}

} // namespace diffrun
