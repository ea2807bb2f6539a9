#include "runtime/plan/CpuFeatures.h"

#include <cpuid.h>
#include <cstdint>
#include <map>

namespace diffrun {
namespace {

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (leaf <= __get_cpuid_max(leaf & 0x80000000, nullptr))
    __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
  return r;
}

bool bit(uint32_t word, int index) { return (word >> index) & 1; }

/// Registers that the operating system saves (XCR0): a feature that it does
/// not save is as good as absent.
uint64_t savedRegisters() {
  if (!bit(cpuid(1, 0).c, 27))
    return 0;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

std::map<std::string, bool> detect() {
  Registers one = cpuid(1, 0), seven = cpuid(7, 0), sevenOne = cpuid(7, 1),
            extended = cpuid(0x80000001, 0);
  uint64_t saved = savedRegisters();
  bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6,
       tiles = (saved & 0x60000) == 0x60000;
  return {{"avx2", ymm && bit(seven.b, 5)},
          {"fma", ymm && bit(one.c, 12)},
          {"f16c", ymm && bit(one.c, 29)},
          {"bmi", bit(seven.b, 3)},
          {"bmi2", bit(seven.b, 8)},
          {"lzcnt", bit(extended.c, 5)},
          {"popcnt", bit(one.c, 23)},
          {"movbe", bit(one.c, 22)},
          {"avx512f", zmm && bit(seven.b, 16)},
          {"avx512dq", zmm && bit(seven.b, 17)},
          {"avx512cd", zmm && bit(seven.b, 28)},
          {"avx512bw", zmm && bit(seven.b, 30)},
          {"avx512vl", zmm && bit(seven.b, 31)},
          {"avx512bf16", zmm && bit(sevenOne.a, 5)},
          {"amx-bf16", tiles && bit(seven.d, 22)},
          {"amx-tile", tiles && bit(seven.d, 24)}};
}

} // namespace

const std::vector<CpuLevel> &cpuLevels() {
  static const std::vector<CpuLevel> levels = [] {
    std::vector<CpuLevel> list;
    std::vector<std::string> features;
    auto add = [&](const char *name, std::initializer_list<const char *> more) {
      features.insert(features.end(), more.begin(), more.end());
      list.push_back({name, features});
    };
    add("avx2", {"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt", "movbe"});
    add("avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
    add("avx512bf16", {"avx512bf16"});
    add("amx", {"amx-tile", "amx-bf16"});
    return list;
  }();
  return levels;
}

bool cpuHas(const std::string &feature) {
  static const std::map<std::string, bool> known = detect();
  auto found = known.find(feature);
  return found != known.end() && found->second;
}

} // namespace diffrun
