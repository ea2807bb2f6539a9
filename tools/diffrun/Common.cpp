#include "tools/diffrun/Commands.h"

#include "runtime/random/Draws.h"

#include <cmath>

namespace diffrun {

Result<std::unique_ptr<Program>> openProgram(const std::string &path,
                                             const std::vector<std::string> &entries) {
  DIFFRUN_ASSIGN(LoadedPlan plan, LoadedPlan::open(path));
  return makeProgram(std::move(plan), entries, {});
}

Result<std::unique_ptr<Program>> makeProgram(LoadedPlan plan,
                                             const std::vector<std::string> &entries,
                                             const std::vector<std::string> &scalars) {
  std::vector<std::string> present;
  for (const std::string &entry : entries)
    if (plan.findEntry(entry))
      present.push_back(entry);
  DIFFRUN_ASSIGN(auto program, Program::create(std::move(plan), present));
  DIFFRUN_RETURN_IF_ERROR(setScalars(*program, scalars)); // a seed draws the first weights
  DIFFRUN_RETURN_IF_ERROR(program->initialize());
  return program;
}

Status setScalars(Program &program, const std::vector<std::string> &settings) {
  for (const std::string &setting : settings) {
    size_t equals = setting.find('=');
    char *end = nullptr;
    double value =
        equals == std::string::npos ? 0 : std::strtod(setting.c_str() + equals + 1, &end);
    if (equals == std::string::npos || end == setting.c_str() + equals + 1 || *end)
      return Status::usage("--set " + setting + " is not NAME=NUMBER");
    DIFFRUN_RETURN_IF_ERROR(program.setScalar(setting.substr(0, equals), value));
  }
  return {};
}

SyntheticData::SyntheticData(const proto::Entry &entry) {
  uint32_t stream = 0x5e7;
  for (int k = 0; k < entry.inputs_size(); ++k) {
    const proto::Input &input = entry.inputs(k);
    if (input.scalar())
      continue;
    bool isTime = input.role() == "timestep";
    auto below = static_cast<float>(rowsIndexedBy(entry, k, isTime ? 1000 : 4));
    evaluate::Tensor tensor({static_cast<DType>(input.type().dtype()),
                             {input.type().shape().begin(), input.type().shape().end()}});
    std::vector<float> numbers(static_cast<size_t>(tensor.type.count()));
    if (!drawUniform({1, stream++, 0, 0}, 1, tensor.type.count(), numbers.data()))
      continue;
    for (size_t i = 0; i < tensor.real.size(); ++i)
      tensor.real[i] = input.role() == "sample_weight" ? 1
                       : isTime                        ? std::floor(numbers[i] * below)
                                                       : 2 * numbers[i] - 1;
    for (size_t i = 0; i < tensor.integer.size(); ++i)
      tensor.integer[i] = static_cast<int64_t>(numbers[i] * below);
    std::vector<char> bytes(static_cast<size_t>(input.buffer().bytes()));
    evaluate::toBytes(tensor, bytes.data());
    storage.push_back(std::move(bytes));
    byRole[input.role()] = storage.back().data();
  }
}

} // namespace diffrun
