// A model and a recipe as a program that is ready to run: for tests.
#pragma once

#include "compiler/pipeline/Compile.h"
#include "runtime/execute/Program.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace diffc::test {

/// Compiles `model` (or the recipe's, if empty) into a folder of the test's own
/// and initialises the program; null after a test failure.
inline std::unique_ptr<diffrun::Program> build(const std::string &name, const std::string &model,
                                               const std::string &recipe) {
  std::string folder = ::testing::TempDir() + "/programs_" + name;
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/recipe.yaml") << recipe;
  CompileOptions options;
  options.model = model;
  options.recipe = folder + "/recipe.yaml";
  options.output = folder + "/p.plan";
  auto compiled = compile(options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  if (!compiled.ok())
    return nullptr;
  auto plan = diffrun::LoadedPlan::open(options.output);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.status().message());
  if (!plan.ok())
    return nullptr;
  auto program = diffrun::Program::create(*plan);
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok())
    return nullptr;
  auto started = (*program)->initialize();
  EXPECT_TRUE(started.ok()) << started.message();
  return std::move(*program);
}

/// The index of a slot; -1 if there is none.
inline int64_t slotOf(const diffrun::Program &program, const std::string &model,
                      const std::string &parameter, const std::string &role) {
  const auto &plan = program.plan().plan();
  for (int i = 0; i < plan.slots_size(); ++i)
    if (plan.slots(i).model() == model && plan.slots(i).parameter() == parameter &&
        plan.slots(i).role() == role)
      return i;
  return -1;
}

inline std::vector<float> slotValues(const diffrun::Program &program, int64_t slot) {
  if (slot < 0) {
    ADD_FAILURE() << "no such slot";
    return {};
  }
  auto bytes = program.plan().plan().slots(static_cast<int>(slot)).buffer().bytes();
  std::vector<float> values(static_cast<size_t>(bytes) / 4);
  std::memcpy(values.data(), program.slotData(slot), values.size() * 4);
  return values;
}

/// The values of a parameter of the only model, as they are now.
inline std::vector<float> valuesOf(const diffrun::Program &program, const std::string &parameter,
                                   const std::string &role = "weight") {
  return slotValues(program, slotOf(program, "model", parameter, role));
}

/// Data of the right size for each input of an entry: small numbers, labels 0..2.
struct Feed {
  std::map<std::string, std::vector<char>> bytes;
  diffrun::InputData data;

  Feed(const diffrun::Program &program, const std::string &name) {
    for (const auto &input : program.plan().findEntry(name)->inputs()) {
      if (input.scalar())
        continue;
      std::vector<char> &to = bytes[input.role()];
      to.assign(static_cast<size_t>(input.buffer().bytes()), 0);
      for (size_t i = 0; i < to.size() / 4 && input.type().dtype() == diffrun::proto::F32; ++i) {
        float value = input.role() == "sample_weight" ? 1.0f
                      : input.role() == "timestep"
                          ? static_cast<float>(i * 7 % 1000)
                          : static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 40;
        std::memcpy(to.data() + 4 * i, &value, 4);
      }
      for (size_t i = 0; i < to.size() / 8 && input.type().dtype() == diffrun::proto::I64; ++i)
        to[8 * i] = static_cast<char>(i % 3);
      data[input.role()] = to.data();
    }
  }

  /// The f32 values of a role, to be read or changed in place.
  float *floats(const std::string &role) {
    return reinterpret_cast<float *>(bytes.at(role).data());
  }
  int64_t *integers(const std::string &role) {
    return reinterpret_cast<int64_t *>(bytes.at(role).data());
  }
  int64_t count(const std::string &role) const {
    return static_cast<int64_t>(bytes.at(role).size() / 4);
  }
};

inline std::vector<float> outputOf(const diffrun::Program &program, const std::string &entry,
                                   const std::string &name = "out") {
  for (const auto &output : program.plan().findEntry(entry)->outputs())
    if (output.name() == name) {
      std::vector<float> values(static_cast<size_t>(output.buffer().bytes()) / 4);
      std::memcpy(values.data(), program.output(entry, name), values.size() * 4);
      return values;
    }
  ADD_FAILURE() << entry << " has no output " << name;
  return {};
}

} // namespace diffc::test
