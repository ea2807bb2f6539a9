#include "tools/diffrun/Commands.h"

#include "runtime/random/Draws.h"

#include <cmath>

namespace diffrun {

Result<std::unique_ptr<Program>> openProgram(const std::string &path,
                                             const std::vector<std::string> &entries,
                                             const std::vector<std::string> &scalars) {
  DIFFRUN_ASSIGN(LoadedPlan plan, LoadedPlan::open(path));
  std::vector<std::string> present;
  for (const std::string &entry : entries)
    if (plan.findEntry(entry))
      present.push_back(entry);
  DIFFRUN_ASSIGN(auto program, Program::create(std::move(plan), present));
  DIFFRUN_RETURN_IF_ERROR(setScalars(*program, scalars)); // a seed draws the first weights
  DIFFRUN_RETURN_IF_ERROR(program->initialize());
  return program;
}

SyntheticData::SyntheticData(const proto::Entry &entry) {
  uint32_t stream = 0x5e7;
  for (const proto::Input &input : entry.inputs()) {
    if (input.scalar())
      continue;
    evaluate::Tensor tensor({static_cast<DType>(input.type().dtype()),
                             {input.type().shape().begin(), input.type().shape().end()}});
    std::vector<float> numbers(static_cast<size_t>(tensor.type.count()));
    if (!drawUniform({1, stream++, 0, 0}, 1, tensor.type.count(), numbers.data()))
      continue;
    for (size_t i = 0; i < tensor.real.size(); ++i)
      tensor.real[i] = input.role() == "sample_weight" ? 1
                       : input.role() == "timestep"    ? std::floor(numbers[i] * 1000)
                                                       : 2 * numbers[i] - 1;
    for (size_t i = 0; i < tensor.integer.size(); ++i)
      tensor.integer[i] =
          static_cast<int64_t>(numbers[i] * (input.role() == "timestep" ? 1000 : 4));
    std::vector<char> bytes(static_cast<size_t>(input.buffer().bytes()));
    evaluate::toBytes(tensor, bytes.data());
    storage.push_back(std::move(bytes));
    byRole[input.role()] = storage.back().data();
  }
}

} // namespace diffrun
