// TensorBoard's file: records of length, masked CRC, protobuf Event, masked CRC.
#include "runtime/metrics/Metrics.h"

#include "runtime/core/Checksum.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace diffrun {
namespace {

void fixed(std::string &out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out.push_back(static_cast<char>(value >> (8 * i)));
}

void varint(std::string &out, uint64_t value) {
  for (; value >= 128; value >>= 7)
    out.push_back(static_cast<char>(value | 128));
  out.push_back(static_cast<char>(value));
}

void message(std::string &out, int field, const std::string &bytes) {
  varint(out, static_cast<uint64_t>(field) << 3 | 2);
  varint(out, bytes.size());
  out += bytes;
}

// Event.wall_time = 1 (double).
std::string eventAt() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  double seconds = std::chrono::duration<double>(now).count();
  uint64_t bits;
  std::memcpy(&bits, &seconds, sizeof bits);
  std::string event(1, char(1 << 3 | 1));
  fixed(event, bits, 8);
  return event;
}

uint32_t masked(const std::string &bytes) {
  uint32_t crc = crc32c(bytes.data(), bytes.size());
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

} // namespace

EventFile::~EventFile() {
  if (file)
    std::fclose(file);
}

Status EventFile::open(const std::string &folder) {
  path = folder + "/events.out.tfevents." + std::to_string(std::time(nullptr)) + ".diffrun." +
         std::to_string(::getpid());
  file = std::fopen(path.c_str(), "ab");
  if (!file)
    return Status::machine(path + ": cannot create: " + std::strerror(errno));
  std::string event = eventAt();
  message(event, 3, "brain.Event:2"); // file_version
  return record(event);
}

Status EventFile::record(const std::string &event) {
  std::string length, bytes;
  fixed(length, event.size(), 8);
  bytes = length;
  fixed(bytes, masked(length), 4);
  bytes += event;
  fixed(bytes, masked(event), 4);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fflush(file) != 0)
    return Status::machine(path + ": cannot write: " + std::strerror(errno));
  return {};
}

Status EventFile::write(int64_t step, const Scalars &scalars) {
  std::string summary;
  for (const auto &[tag, number] : scalars) {
    std::string value;
    message(value, 1, tag);
    auto single = static_cast<float>(number);
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    value.push_back(char(2 << 3 | 5)); // simple_value
    fixed(value, bits, 4);
    message(summary, 1, value);
  }
  std::string event = eventAt();
  event.push_back(char(2 << 3)); // step
  varint(event, static_cast<uint64_t>(step));
  message(event, 5, summary);
  return record(event);
}

} // namespace diffrun
