// 2,000 seeded mutations of a good plan: each is refused with a message or
// runs without leaving its memory (this test runs under sanitizers, too).
#include "runtime/execute/Program.h"
#include "runtime/plan/Seal.h"
#include "tests/unit/plan/PlanMaker.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace diffrun {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// One number, string or list in a message tree.
struct Place {
  Message *message;
  const FieldDescriptor *field;
};

void collect(Message &message, std::vector<Place> &places) {
  const Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    places.push_back({&message, field});
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map())
      continue;
    if (!field->is_repeated())
      collect(*reflection->MutableMessage(&message, field), places);
    for (int i = 0; field->is_repeated() && i < reflection->FieldSize(message, field); ++i)
      collect(*reflection->MutableRepeatedMessage(&message, field, i), places);
  }
}

class Mutator {
public:
  explicit Mutator(uint32_t seed) : random(seed) {}

  uint64_t below(uint64_t limit) { return random() % limit; }

  int64_t number(int64_t old) {
    constexpr int64_t kInteresting[] = {0,
                                        1,
                                        -1,
                                        2,
                                        3,
                                        7,
                                        64,
                                        128,
                                        1 << 16,
                                        int64_t{1} << 31,
                                        int64_t{1} << 32,
                                        int64_t{1} << 46,
                                        int64_t{1} << 62,
                                        INT64_MAX,
                                        INT64_MIN};
    switch (below(4)) {
    case 0:
      return kInteresting[below(std::size(kInteresting))];
    case 1:
      return static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
    case 2:
      return static_cast<int64_t>(static_cast<uint64_t>(old) * 2);
    default:
      return old - static_cast<int64_t>(below(130));
    }
  }

  /// Changes one field of a plan.
  void mutate(proto::Plan &plan) {
    std::vector<Place> places;
    collect(plan, places);
    auto [message, field] = places[below(places.size())];
    const Reflection *reflection = message->GetReflection();
    if (field->is_repeated()) {
      int size = reflection->FieldSize(*message, field);
      int at = static_cast<int>(below(static_cast<uint64_t>(size)));
      switch (below(3)) {
      case 0:
        reflection->RemoveLast(message, field);
        return;
      case 1:
        reflection->SwapElements(message, field, at, size - 1);
        return;
      default:
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64)
          reflection->SetRepeatedInt64(message, field, at,
                                       number(reflection->GetRepeatedInt64(*message, field, at)));
        else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map())
          reflection->AddMessage(message, field)
              ->CopyFrom(reflection->GetRepeatedMessage(*message, field, at));
        return;
      }
    }
    switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(message, field, number(reflection->GetInt64(*message, field)));
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, field, static_cast<int32_t>(below(5)) - 1);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->SetUInt32(message, field, static_cast<uint32_t>(number(1)));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(message, field, static_cast<int>(number(1) & 0xff));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, field, !reflection->GetBool(*message, field));
    default:
      reflection->ClearField(message, field);
    }
  }

  void damage(std::string &bytes) {
    size_t at = below(bytes.size());
    switch (below(4)) {
    case 0:
      bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.erase(at, 1 + below(16));
      break;
    default:
      bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(16)));
    }
  }

private:
  std::mt19937_64 random;
};

/// Runs every entry of a plan that was accepted, unless it is large.
void exercise(LoadedPlan plan) {
  int64_t bytes = 0, chunks = 0;
  for (const proto::Space &space : plan.plan().spaces())
    bytes += space.bytes();
  for (const proto::Entry &entry : plan.plan().entries())
    for (const proto::Op &op : entry.ops())
      chunks += op.launch().chunks();
  if (bytes > (64 << 20) || chunks > 10000)
    return;
  auto program = Program::create(std::move(plan));
  if (!program) {
    ASSERT_FALSE(program.status().message().empty());
    return;
  }
  if (!(*program)->initialize())
    return;
  static const std::vector<char> zeros(64 << 20);
  for (const proto::Entry &entry : (*program)->plan().plan().entries()) {
    InputData data;
    for (const proto::Input &input : entry.inputs())
      data[input.role()] = zeros.data();
    Status ignored = (*program)->run(entry.name(), data);
    (void)ignored;
  }
}

TEST(PlanMutation, RefusedOrHarmless) {
  const proto::Plan good = samplePlan(false); // native code cannot be checked
  int accepted = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Mutator mutator(seed);
    std::string bytes;
    if (seed % 4 == 0) {
      bytes = good.SerializeAsString();
      mutator.damage(bytes);
    } else {
      proto::Plan plan = good;
      for (uint64_t i = 0; i <= seed % 3; ++i)
        mutator.mutate(plan);
      bytes = plan.SerializePartialAsString();
    }
    sealPlan(bytes);
    auto loaded = LoadedPlan::parse(bytes, "mutated.plan");
    if (!loaded) {
      ASSERT_NE(loaded.status().message().find("mutated.plan: "), std::string::npos) << seed;
      continue;
    }
    ++accepted;
    ASSERT_NO_FATAL_FAILURE(exercise(std::move(*loaded))) << seed;
  }
  EXPECT_GT(accepted, 100); // names, scalars' values: not all are faults
  EXPECT_LT(accepted, 1200);
}

} // namespace
} // namespace diffrun
