#include "runtime/device/cpu/CallBase.h"

#include <omp.h>

namespace diffrun {

Status configureLibrary(const std::string &level, int team) {
  static std::string capped;
  if (capped.empty()) {
    dnnl::cpu_isa isa = level == "avx2"         ? dnnl::cpu_isa::avx2
                        : level == "avx512"     ? dnnl::cpu_isa::avx512_core
                        : level == "avx512bf16" ? dnnl::cpu_isa::avx512_core_bf16
                                                : dnnl::cpu_isa::avx512_core_amx;
    if (dnnl::set_max_cpu_isa(isa) != dnnl::status::success)
      return Status::internal("oneDNN was used before its instructions were capped");
    capped = level;
  } else if (capped != level) {
    return Status::machine("oneDNN is set to level " + capped + " in this process already, not " +
                           level);
  }
  omp_set_dynamic(0);
  omp_set_num_threads(team);
  int granted = 0;
#pragma omp parallel
  {
#pragma omp master
    granted = omp_get_num_threads();
  }
  if (granted != team)
    return Status::machine("the plan needs a team of " + std::to_string(team) +
                               " threads, OpenMP gives " + std::to_string(granted),
                           "unset OMP_THREAD_LIMIT and OMP_MAX_ACTIVE_LEVELS");
  return {};
}

} // namespace diffrun
