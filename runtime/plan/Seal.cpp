#include "runtime/plan/Seal.h"

#include "runtime/core/Checksum.h"
#include "runtime/plan/plan.pb.h"

namespace diffrun {
namespace {

// The field as protobuf writes it: its tag (wire type 1, 64 bits) and the
// value, low byte first.
constexpr char kTag = static_cast<char>(proto::Plan::kChecksumFieldNumber << 3 | 1);
constexpr size_t kSealBytes = 9;

std::string sealOf(const char *data, size_t bytes) {
  uint64_t checksum = crc32c(data, bytes);
  std::string seal(1, kTag);
  for (int i = 0; i < 8; ++i)
    seal.push_back(static_cast<char>(checksum >> (8 * i)));
  return seal;
}

} // namespace

void sealPlan(std::string &plan) { plan += sealOf(plan.data(), plan.size()); }

bool isSealed(const std::string &plan) {
  if (plan.size() < kSealBytes)
    return false;
  size_t body = plan.size() - kSealBytes;
  return plan.compare(body, kSealBytes, sealOf(plan.data(), body)) == 0;
}

} // namespace diffrun
