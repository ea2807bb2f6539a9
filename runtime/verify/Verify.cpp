#include "runtime/verify/Verify.h"

#include "runtime/verify/Tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
    DIFFRUN_RETURN_IF_ERROR(evaluateLoss());
    for (int i = 0; i < entry.ops_size(); ++i) {
      DIFFRUN_RETURN_IF_ERROR(checkOp(i));
      if (options.progress)
        options.progress(i + 1, entry.ops_size());
    }
    DIFFRUN_RETURN_IF_ERROR(compareLoss());
    return report;
  }

private:
  int64_t lossValue() const {
    for (int i = 0; i < entry.outputs_size(); ++i)
      if (entry.outputs(i).name() == "loss")
        return entry.output_values(i);
    return -1;
  }

  /// The loss from the entry's inputs and state alone, before anything ran.
  Status evaluateLoss() {
    int64_t loss = lossValue();
    if (loss < 0)
      return {};
    // What the loss needs, and where each value is needed last.
    std::vector<bool> needed(graph.values.size(), false);
    std::vector<size_t> last(graph.values.size(), 0);
    std::vector<size_t> order;
    needed[static_cast<size_t>(loss)] = true;
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const ev::Node &node = graph.nodes[n];
      bool use = std::any_of(node.results.begin(), node.results.end(),
                             [&](int64_t id) { return needed[static_cast<size_t>(id)]; });
      if (!use)
        continue;
      order.push_back(n);
      for (int64_t id : node.operands)
        if (id >= 0 && !needed[static_cast<size_t>(id)]) {
          needed[static_cast<size_t>(id)] = true;
          last[static_cast<size_t>(id)] = n;
        }
    }
    Values values(graph.values.size());
    for (int i = 0; i < entry.inputs_size(); ++i)
      if (auto id = entry.input_values(i); needed[static_cast<size_t>(id)])
        values[static_cast<size_t>(id)] = read(entry.inputs(i).buffer(), id);
    for (const proto::SlotUse &use : entry.reads())
      if (needed[static_cast<size_t>(use.value())])
        values[static_cast<size_t>(use.value())] =
            read(program.plan().plan().slots(static_cast<int>(use.slot())).buffer(), use.value());
    for (auto n = order.rbegin(); n != order.rend(); ++n) {
      const ev::Node &node = graph.nodes[*n];
      DIFFRUN_RETURN_IF_ERROR(ev::evaluate(graph, static_cast<int64_t>(*n), 1, values)
                                  .withContext(program.plan().path() + ": " + node.location));
      for (const auto &ids : {node.operands, node.results})
        for (int64_t id : ids)
          if (id >= 0 && id != loss && last[static_cast<size_t>(id)] <= *n)
            values[static_cast<size_t>(id)].reset();
    }
    report.hasLoss = true;
    report.lossEvaluated = values[static_cast<size_t>(loss)]->real.at(0);
    return {};
  }

  Status compareLoss() {
    if (!report.hasLoss)
      return {};
    report.loss = program.outputFloat(entry.name(), "loss");
    double difference = std::fabs(report.loss - report.lossEvaluated);
    if (difference <= 1e-4 * std::fabs(report.lossEvaluated) + 2e-6 ||
        (std::isnan(report.loss) && std::isnan(report.lossEvaluated)))
      return {};
    return Status::invalid(
        fmt::format("{}: entry {}: the loss is {}, from the inputs on in double precision it is {}",
                    program.plan().path(), entry.name(), report.loss, report.lossEvaluated),
        "every operation agrees by itself: their order or buffers are wrong; report it with the "
        "model and recipe");
  }

  ev::Tensor read(const proto::Buffer &buffer, int64_t value) {
    return ev::fromBytes(graph.values[static_cast<size_t>(value)], program.at(buffer));
  }

  Status checkOp(int index) {
    const proto::Op &op = entry.ops(index);
    Values values(graph.values.size());
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
    Values exact = values;
    DIFFRUN_RETURN_IF_ERROR(ev::evaluate(graph, op.first_node(), op.node_count(), exact)
                                .withContext(describe(entry, index)));
    DIFFRUN_ASSIGN(auto allowed, tolerancesOf(graph, op, values, exact));
    for (int k = 0; k < op.results_size(); ++k) {
      auto id = static_cast<size_t>(op.result_values(k));
      if (bytesOf(entry.program().values(static_cast<int>(id))) != op.results(k).bytes())
        return Status::invalid(describe(entry, index) + ": a result's value has another size");
      DIFFRUN_RETURN_IF_ERROR(compare(index, k, read(op.results(k), op.result_values(k)),
                                      *exact[id], allowed[static_cast<size_t>(k)]));
    }
    return {};
  }

  Status compare(int index, int result, const ev::Tensor &got, const ev::Tensor &exact,
                 const std::vector<double> &allowed) {
    auto wrong = [&](size_t element, double ours, double right, double tolerance) {
      return Status::invalid(
          fmt::format("{}: {}: result {}, element {} is {}, the evaluator says {} (within {:.3g})",
                      program.plan().path(), describe(entry, index), result, element, ours, right,
                      tolerance),
          "the plan computes this operation wrongly; report it with the model and recipe");
    };
    for (size_t i = 0; i < exact.integer.size(); ++i) {
      auto ours = static_cast<double>(got.integer[i]),
           right = static_cast<double>(exact.integer[i]);
      if (got.integer[i] != exact.integer[i] && !(std::fabs(ours - right) <= allowed[i]))
        return wrong(i, ours, right, allowed[i]);
    }
    for (size_t i = 0; i < exact.real.size(); ++i) {
      double ours = got.real[i], right = exact.real[i];
      if (ours == right || (std::isnan(ours) && std::isnan(right)))
        continue;
      double error = std::fabs(ours - right);
      if (!(error <= allowed[i]))
        return wrong(i, ours, right, allowed[i]);
      if (error / allowed[i] > report.worst) {
        report.worst = error / allowed[i];
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
