#include "runtime/verify/Verify.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace diffrun {
namespace {

namespace ev = evaluate;

class Verifier {
public:
  Verifier(Program &program, const proto::Entry &entry, const VerifyOptions &options)
      : program(program), entry(entry), options(options) {}

  Result<VerifyReport> run(const InputData &data) {
    DIFFRUN_ASSIGN(graph, programOf(entry));
    DIFFRUN_RETURN_IF_ERROR(program.placeInputs(entry, data));
    report.operations = entry.ops_size();
    for (int i = 0; i < entry.ops_size(); ++i) {
      DIFFRUN_RETURN_IF_ERROR(checkOp(i));
      if (options.progress)
        options.progress(i + 1, entry.ops_size());
    }
    report.loss = program.outputFloat(entry.name(), "loss");
    return report;
  }

private:
  ev::Tensor read(const proto::Buffer &buffer, int64_t value) {
    return ev::fromBytes(graph.values[static_cast<size_t>(value)], program.at(buffer));
  }

  Status checkOp(int index) {
    const proto::Op &op = entry.ops(index);
    std::vector<std::optional<ev::Tensor>> values(graph.values.size());
    for (int k = 0; k < op.operands_size(); ++k) {
      auto id = static_cast<size_t>(op.operand_values(k));
      if (bytesOf(entry.program().values(static_cast<int>(id))) != op.operands(k).bytes())
        return Status::invalid(describe(entry, index) + ": an operand's value has another size");
      values[id] = read(op.operands(k), op.operand_values(k));
    }
    DIFFRUN_RETURN_IF_ERROR(program.runOp(entry, index));
    if (op.has_copy()) {
      for (size_t b = 0; b < static_cast<size_t>(op.operands(0).bytes()); ++b)
        if (static_cast<char *>(program.at(op.operands(0)))[b] !=
            static_cast<char *>(program.at(op.results(0)))[b])
          return Status::invalid(describe(entry, index) + ": copies wrongly");
      return {};
    }
    // How much a result may be off grows with what was summed on the way.
    double magnitude = 1;
    std::vector<std::optional<ev::Tensor>> exact = values;
    for (int64_t n = op.first_node(); n < op.first_node() + op.node_count(); ++n) {
      DIFFRUN_RETURN_IF_ERROR(ev::evaluate(graph, n, 1, exact).withContext(describe(entry, index)));
      for (int64_t id : graph.nodes[static_cast<size_t>(n)].results)
        for (double x : exact[static_cast<size_t>(id)]->real)
          if (std::isfinite(x) && std::fabs(x) < 1e30)
            magnitude = std::max(magnitude, std::fabs(x));
    }
    for (int k = 0; k < op.operands_size(); ++k)
      for (double x : values[static_cast<size_t>(op.operand_values(k))]->real)
        if (std::isfinite(x) && std::fabs(x) < 1e30)
          magnitude = std::max(magnitude, std::fabs(x));
    for (int k = 0; k < op.results_size(); ++k) {
      if (bytesOf(entry.program().values(static_cast<int>(op.result_values(k)))) !=
          op.results(k).bytes())
        return Status::invalid(describe(entry, index) + ": a result's value has another size");
      ev::Tensor got = read(op.results(k), op.result_values(k));
      DIFFRUN_RETURN_IF_ERROR(compare(index, k, got,
                                      *exact[static_cast<size_t>(op.result_values(k))],
                                      sumLength(op), magnitude));
    }
    return {};
  }

  /// Terms of the longest sum: the depth of a product, the taps of a
  /// convolution, the elements of a kernel's largest operand.
  static double sumLength(const proto::Op &op) {
    if (op.has_matmul())
      return static_cast<double>(op.matmul().a_shape(op.matmul().a_shape_size() - 1));
    int64_t longest = 1;
    for (const proto::Buffer &buffer : op.operands())
      longest = std::max(longest, buffer.bytes() / 4);
    return static_cast<double>(longest);
  }

  Status compare(int index, int result, const ev::Tensor &got, const ev::Tensor &exact,
                 double terms, double magnitude) {
    double tolerance = std::ldexp(64 + 4 * std::sqrt(terms), -24) * magnitude;
    auto wrong = [&](size_t element, double ours, double right) {
      return Status::invalid(
          fmt::format("{}: {}: result {}, element {} is {}, the evaluator says {} (within {})",
                      program.plan().path(), describe(entry, index), result, element, ours, right,
                      tolerance),
          "the plan computes this operation wrongly; report it with the model and recipe");
    };
    for (size_t i = 0; i < exact.integer.size(); ++i)
      if (got.integer[i] != exact.integer[i])
        return wrong(i, static_cast<double>(got.integer[i]), static_cast<double>(exact.integer[i]));
    for (size_t i = 0; i < exact.real.size(); ++i) {
      double ours = got.real[i], right = exact.real[i];
      if (ours == right || (std::isnan(ours) && std::isnan(right)))
        continue;
      double error = std::fabs(ours - right);
      if (!(error <= tolerance))
        return wrong(i, ours, right);
      if (error / tolerance > report.worst) {
        report.worst = error / tolerance;
        report.worstWhere = describe(entry, index);
      }
    }
    return {};
  }

  Program &program;
  const proto::Entry &entry;
  const VerifyOptions &options;
  ev::Graph graph;
  VerifyReport report;
};

} // namespace

Result<VerifyReport> verifyEntry(Program &program, const InputData &data,
                                 const VerifyOptions &options) {
  const proto::Entry *entry = program.plan().findEntry(options.entry);
  if (!entry)
    return Status::invalid(program.plan().path() + ": has no entry " + options.entry);
  return Verifier(program, *entry, options).run(data);
}

} // namespace diffrun
