#include "compiler/report/Report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace proto = diffrun::proto;
using nlohmann::json;

namespace diffc {
namespace {

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Who is live in the arena at the step where most is: buffers by operation.
struct Peak {
  int64_t bytes = 0;
  int step = -1;
  std::vector<std::pair<int64_t, std::string>> holders;
};

/// A range of the arena from the operation that writes it to its last reader.
struct Life {
  int begin, end;
  int64_t offset, bytes;
  std::string who;

  bool at(int step) const { return begin <= step && step <= end; }
};

/// Bytes that are live at a step, of lives in the order of their offsets: a
/// place that a result takes over from an operand counts once.
int64_t liveBytes(const std::vector<Life> &lives, int step) {
  int64_t bytes = 0, covered = 0;
  for (const Life &life : lives)
    if (int64_t end = life.offset + life.bytes; life.at(step) && end > covered) {
      bytes += end - std::max(covered, life.offset);
      covered = end;
    }
  return bytes;
}

/// Recomputed from the operations alone: a range is live from its write to its
/// last read before the next write to it.
Peak peakOf(const proto::Entry &entry, uint32_t arena) {
  std::vector<Life> lives;
  std::map<int64_t, size_t> current; // offset -> life
  auto touch = [&](const proto::Buffer &buffer, int step) {
    auto found = buffer.space() == arena ? current.find(buffer.offset()) : current.end();
    if (found != current.end())
      lives[found->second].end = step;
  };
  auto begin = [&](const proto::Buffer &buffer, int step, std::string who) {
    if (buffer.space() != arena)
      return;
    current[buffer.offset()] = lives.size();
    lives.push_back({step, std::max(step, 0), buffer.offset(), buffer.bytes(), std::move(who)});
  };
  for (const proto::Input &input : entry.inputs())
    begin(input.buffer(), -1, "input " + input.name());
  for (int i = 0; i < entry.ops_size(); ++i) {
    const proto::Op &op = entry.ops(i);
    for (const proto::Buffer &buffer : op.operands())
      touch(buffer, i);
    std::string who = op.label() + (op.location().empty() ? "" : " (" + op.location() + ")");
    for (const proto::Buffer &buffer : op.scratch())
      begin(buffer, i, "workspace of " + who);
    for (const proto::Buffer &buffer : op.results())
      begin(buffer, i, who);
  }
  for (const proto::Output &output : entry.outputs())
    touch(output.buffer(), entry.ops_size());
  std::sort(lives.begin(), lives.end(),
            [](const Life &a, const Life &b) { return a.offset < b.offset; });
  Peak peak;
  for (int step = 0; step < entry.ops_size(); ++step)
    if (int64_t bytes = liveBytes(lives, step); bytes > peak.bytes)
      peak = {bytes, step, {}};
  for (const Life &life : lives) {
    bool handedOver = std::any_of(lives.begin(), lives.end(), [&](const Life &next) {
      return life.begin < next.begin && next.begin == peak.step && life.offset == next.offset &&
             life.bytes <= next.bytes;
    });
    if (life.at(peak.step) && !handedOver)
      peak.holders.emplace_back(life.bytes, life.who);
  }
  std::sort(peak.holders.rbegin(), peak.holders.rend());
  return peak;
}

json operations(const proto::Entry &entry) {
  json list = json::array();
  for (const proto::Op &op : entry.ops()) {
    json nodes = json::array();
    for (int64_t n = op.first_node(); n < op.first_node() + op.node_count(); ++n)
      nodes.push_back(entry.program().nodes(static_cast<int>(n)).op());
    list.push_back({{"label", op.label()},
                    {"location", op.location()},
                    {"operators", nodes},
                    {"bytes_read", op.bytes_read()},
                    {"bytes_written", op.bytes_written()},
                    {"flops", op.flops()}});
  }
  return list;
}

json describe(const proto::Plan &plan, const ReportOptions &options) {
  json out = {{"name", plan.name()},
              {"compiler", plan.compiler()},
              {"target", "cpu:" + plan.target().level()},
              {"threads", plan.target().team()},
              {"code_bytes", plan.code().size()},
              {"decisions", plan.decisions()}};
  for (const proto::Space &space : plan.spaces())
    out["spaces"][space.name()] = space.bytes();
  std::map<std::string, int64_t> roles;
  for (const proto::Slot &slot : plan.slots())
    roles[slot.model().empty() ? "counters" : slot.role()] += slot.buffer().bytes();
  out["state"] = roles;
  uint32_t arena = 2;
  for (const proto::Entry &entry : plan.entries()) {
    json one = {{"name", entry.name()},
                {"batch", entry.batch()},
                {"operations", entry.ops_size()},
                {"arena_bytes", entry.arena_bytes()}};
    int64_t flops = 0, multiplied = 0, read = 0, written = 0;
    for (const proto::Op &op : entry.ops()) {
      flops += op.flops(), read += op.bytes_read(), written += op.bytes_written();
      if (op.has_matmul() || op.has_convolution())
        multiplied += op.flops() / 2;
    }
    one["flops"] = flops, one["multiply_accumulates"] = multiplied, one["bytes_read"] = read,
    one["bytes_written"] = written;
    if (options.memory) {
      Peak peak = peakOf(entry, arena);
      one["peak_live_bytes"] = peak.bytes;
      one["peak_at"] = peak.step < 0 ? ""
                                     : entry.ops(peak.step).label() + " (" +
                                           entry.ops(peak.step).location() + ")";
      for (size_t i = 0; i < peak.holders.size() && i < 12; ++i)
        one["peak_holders"].push_back(
            {{"bytes", peak.holders[i].first}, {"who", peak.holders[i].second}});
    }
    if (options.fusion)
      one["ops"] = operations(entry);
    out["entries"].push_back(one);
  }
  if (options.fusion)
    for (const proto::Remark &remark : plan.remarks())
      out["remarks"].push_back(
          {{"kind", remark.kind()}, {"location", remark.location()}, {"text", remark.text()}});
  if (options.kernels) {
    std::map<std::string, std::pair<int64_t, std::string>> kernels;
    for (const proto::Entry &entry : plan.entries())
      for (const proto::Op &op : entry.ops())
        if (op.has_launch()) {
          auto &kernel = kernels[op.launch().symbol()];
          ++kernel.first;
          kernel.second = op.label();
        }
    for (auto &[symbol, kernel] : kernels)
      out["kernels"].push_back(
          {{"symbol", symbol}, {"label", kernel.second}, {"launches", kernel.first}});
  }
  return out;
}

std::string asText(const json &plan, const ReportOptions &options) {
  std::string text =
      fmt::format("{}: {}, {} threads, {:.1f} MiB of code\n", plan["name"].get<std::string>(),
                  plan["target"].get<std::string>(), plan["threads"].get<int>(),
                  mebibytes(plan["code_bytes"].get<int64_t>()));
  text += "state\n";
  for (auto &[role, bytes] : plan["state"].items())
    text += fmt::format("  {:<10} {:10.2f} MiB\n", role, mebibytes(bytes.get<int64_t>()));
  text += fmt::format("arena {:.2f} MiB, shared by all entries; constants {:.2f} MiB\n",
                      mebibytes(plan["spaces"]["arena"].get<int64_t>()),
                      mebibytes(plan["spaces"]["constants"].get<int64_t>()));
  for (const json &entry : plan["entries"]) {
    text += fmt::format("entry {}: batch {}, {} operations, {:.3f} GFLOP, {:.3f} G multiply-"
                        "accumulates, {:.1f} MiB read, {:.1f} MiB written, arena {:.2f} MiB\n",
                        entry["name"].get<std::string>(), entry["batch"].get<int64_t>(),
                        entry["operations"].get<int>(),
                        1e-9 * static_cast<double>(entry["flops"].get<int64_t>()),
                        1e-9 * static_cast<double>(entry["multiply_accumulates"].get<int64_t>()),
                        mebibytes(entry["bytes_read"].get<int64_t>()),
                        mebibytes(entry["bytes_written"].get<int64_t>()),
                        mebibytes(entry["arena_bytes"].get<int64_t>()));
    if (options.memory && entry.contains("peak_holders")) {
      text += fmt::format("  most is live at {}: {:.2f} MiB, of it\n",
                          entry["peak_at"].get<std::string>(),
                          mebibytes(entry["peak_live_bytes"].get<int64_t>()));
      for (const json &holder : entry["peak_holders"])
        text += fmt::format("    {:10.2f} MiB  {}\n", mebibytes(holder["bytes"].get<int64_t>()),
                            holder["who"].get<std::string>());
    }
    if (options.fusion)
      for (const json &op : entry["ops"]) {
        text +=
            fmt::format("  {:<32} {:9.3f} MiB in {:9.3f} out {:9.3f} MFLOP  {}\n",
                        op["label"].get<std::string>(), mebibytes(op["bytes_read"].get<int64_t>()),
                        mebibytes(op["bytes_written"].get<int64_t>()),
                        1e-6 * static_cast<double>(op["flops"].get<int64_t>()),
                        op["location"].get<std::string>());
        std::string operators;
        for (const json &name : op["operators"])
          operators += " " + name.get<std::string>();
        text += "     " + operators + "\n";
      }
  }
  if (options.fusion && plan.contains("remarks")) {
    text += "edges that were not fused\n";
    for (const json &remark : plan["remarks"])
      text += fmt::format("  {}: {}\n", remark["location"].get<std::string>(),
                          remark["text"].get<std::string>());
  }
  if (options.kernels && plan.contains("kernels"))
    for (const json &kernel : plan["kernels"])
      text += fmt::format("kernel {:<6} {:<32} launched {} times\n",
                          kernel["symbol"].get<std::string>(), kernel["label"].get<std::string>(),
                          kernel["launches"].get<int64_t>());
  return text + plan["decisions"].get<std::string>();
}

} // namespace

std::string report(const proto::Plan &plan, const ReportOptions &options) {
  json described = describe(plan, options);
  return options.json ? described.dump(2) + "\n" : asText(described, options);
}

} // namespace diffc
