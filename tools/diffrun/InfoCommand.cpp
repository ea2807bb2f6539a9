// diffrun info: devices, and why one is not available.
#include "runtime/plan/CpuFeatures.h"
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>

#include <thread>

namespace diffrun {

Action addInfo(CLI::App &app) {
  CLI::App *command = app.add_subcommand("info", "What this machine can run");
  return [=] {
    if (!command->parsed())
      return Status();
    std::string level = "none";
    if (cpuHas("avx2") && cpuHas("fma"))
      level = "avx2";
    if (cpuHas("avx512f") && cpuHas("avx512bw") && cpuHas("avx512vl"))
      level = "avx512";
    if (level == "avx512" && cpuHas("avx512bf16"))
      level = "avx512bf16";
    if (level == "avx512bf16" && cpuHas("amx-bf16"))
      level = "amx";
    fmt::print("cpu   available: level {}, {} cores\n", level, std::thread::hardware_concurrency());
    fmt::print("cuda  not available: this diffrun is built without the CUDA device\n");
    return Status();
  };
}

} // namespace diffrun
