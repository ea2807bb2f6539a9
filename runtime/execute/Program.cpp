#include "runtime/execute/Program.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/execute/FileTypes.h"
#include "runtime/random/Draws.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <limits>
#include <omp.h>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

namespace diffrun {

using KernelFunction = void (*)(void *const *buffers, int64_t chunk);

/// One operation with everything resolved.
struct Program::Step {
  KernelFunction kernel = nullptr;
  std::unique_ptr<LibraryCall> call;
  std::vector<void *> operands, results;
  std::vector<void *> buffers; ///< operands, results, scratch
};

Program::Program(LoadedPlan plan) : loaded(std::move(plan)) {}

Program::~Program() {
  if (library)
    dlclose(library);
  if (codeFile >= 0)
    close(codeFile);
}

Result<std::unique_ptr<Program>> Program::create(LoadedPlan plan,
                                                 const std::vector<std::string> &entries) {
  std::unique_ptr<Program> program(new Program(std::move(plan)));
  const proto::Target &target = program->loaded.plan().target();
  DIFFRUN_RETURN_IF_ERROR(program->choose(entries));
  DIFFRUN_RETURN_IF_ERROR(program->allocate());
  DIFFRUN_RETURN_IF_ERROR(configureLibrary(target.level(), target.team()));
  DIFFRUN_RETURN_IF_ERROR(program->loadCode());
  DIFFRUN_RETURN_IF_ERROR(program->prepare());
  // Until here the spaces are addresses without pages.
  resetPeakResident();
  program->before = residentBytes();
  for (int i = 0; i < program->loaded.plan().spaces_size(); ++i) {
    const std::string &data = program->loaded.plan().spaces(i).data();
    if (!data.empty())
      std::memcpy(program->spaces[static_cast<size_t>(i)].data(), data.data(), data.size());
  }
  return program;
}

Status Program::choose(const std::vector<std::string> &entries) {
  for (const std::string &name : entries)
    if (!loaded.findEntry(name))
      return Status::invalid(loaded.path() + ": has no entry " + name,
                             "add it to the recipe's entries and compile again");
  for (const proto::Entry &entry : loaded.plan().entries())
    if (entries.empty() || entry.name() == "init" ||
        std::find(entries.begin(), entries.end(), entry.name()) != entries.end())
      chosen.push_back(&entry);
  return {};
}

Status Program::allocate() {
  const proto::Plan &plan = loaded.plan();
  std::vector<int64_t> bytes(static_cast<size_t>(plan.spaces_size()));
  for (int i = 0; i < plan.spaces_size(); ++i)
    if (plan.spaces(i).lifetime() == proto::Space::PROGRAM)
      bytes[static_cast<size_t>(i)] = plan.spaces(i).bytes();
  auto include = [&](const proto::Buffer &buffer) {
    int64_t &size = bytes[buffer.space()];
    size = std::max(size, buffer.offset() + buffer.bytes());
  };
  for (const proto::Entry *entry : chosen) {
    for (const proto::Input &input : entry->inputs())
      include(input.buffer());
    for (const proto::Output &output : entry->outputs())
      include(output.buffer());
    for (const proto::Op &op : entry->ops())
      for (const auto *list : {&op.operands(), &op.results(), &op.scratch()})
        for (const proto::Buffer &buffer : *list)
          include(buffer);
  }
  int64_t all = 0;
  for (int64_t one : bytes)
    all += one;
  DIFFRUN_RETURN_IF_ERROR(Memory::check(all, loaded.path()));
  for (int i = 0; i < plan.spaces_size(); ++i) {
    DIFFRUN_ASSIGN(Memory memory, Memory::allocate(bytes[static_cast<size_t>(i)],
                                                   loaded.path() + ": " + plan.spaces(i).name()));
    spaces.push_back(std::move(memory));
  }
  return {};
}

Status Program::loadCode() {
  const std::string &code = loaded.plan().code();
  if (code.empty())
    return {};
  // Kept open as long as the library is loaded: dlopen knows libraries by name,
  // and a number used again would give another program's kernels.
  codeFile = memfd_create("diffrun-kernels", MFD_CLOEXEC);
  bool written = codeFile >= 0;
  for (size_t done = 0; written && done < code.size();) {
    ssize_t now = write(codeFile, code.data() + done, code.size() - done);
    written = now > 0;
    done += static_cast<size_t>(std::max<ssize_t>(now, 0));
  }
  if (written)
    library = dlopen(("/proc/self/fd/" + std::to_string(codeFile)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::machine(loaded.path() + ": its code cannot be loaded: " +
                           (written ? dlerror() : std::strerror(errno)));
  return {};
}

Status Program::prepare() {
  int64_t scratchBytes = 0;
  for (const proto::Entry *entry : chosen) {
    std::vector<Step> &list = steps[entry];
    for (int i = 0; i < entry->ops_size(); ++i) {
      const proto::Op &op = entry->ops(i);
      Step step;
      for (const proto::Buffer &buffer : op.operands())
        step.operands.push_back(at(buffer));
      for (const proto::Buffer &buffer : op.results())
        step.results.push_back(at(buffer));
      step.buffers = step.operands;
      step.buffers.insert(step.buffers.end(), step.results.begin(), step.results.end());
      for (const proto::Buffer &buffer : op.scratch())
        step.buffers.push_back(at(buffer));
      DIFFRUN_RETURN_IF_ERROR(
          prepareCall(*entry, i, step).withContext(loaded.path() + ": " + describe(*entry, i)));
      if (step.call && op.scratch_size() == 0)
        scratchBytes = std::max(scratchBytes, step.call->scratchBytes());
      list.push_back(std::move(step));
    }
  }
  // Only oneDNN knows how much that is; still no page of the spaces is taken.
  DIFFRUN_RETURN_IF_ERROR(Memory::check(plannedBytes() + scratchBytes, loaded.path()));
  DIFFRUN_ASSIGN(scratch, Memory::allocate(scratchBytes, loaded.path() + ": scratch of oneDNN"));
  for (auto &[entry, list] : steps)
    for (size_t i = 0; i < list.size(); ++i) {
      const proto::Op &op = entry->ops(static_cast<int>(i));
      if (list[i].call)
        DIFFRUN_RETURN_IF_ERROR(
            list[i].call->bind(list[i].operands, list[i].results[0],
                               op.scratch_size() ? at(op.scratch(0)) : scratch.data()));
    }
  return {};
}

Status Program::prepareCall(const proto::Entry &entry, int index, Step &step) {
  const proto::Op &op = entry.ops(index);
  if (op.has_launch()) {
    if (library)
      step.kernel = reinterpret_cast<KernelFunction>(dlsym(library, op.launch().symbol().c_str()));
    if (!step.kernel)
      return Status::invalid("its code has no kernel " + op.launch().symbol());
    return {};
  }
  if (!op.has_matmul() && !op.has_convolution())
    return {};
  DIFFRUN_ASSIGN(step.call,
                 op.has_matmul() ? makeMatmul(op.matmul()) : makeConvolution(op.convolution()));
  if (op.scratch_size() && op.scratch(0).bytes() < step.call->scratchBytes())
    return Status::machine("oneDNN needs " + std::to_string(step.call->scratchBytes()) +
                               " bytes of scratch here, the plan has " +
                               std::to_string(op.scratch(0).bytes()),
                           "compile it on this machine");
  return {};
}

void *Program::at(const proto::Buffer &buffer) const {
  char *base = spaces[buffer.space()].data();
  return base ? base + buffer.offset() : nullptr;
}

int64_t Program::plannedBytes() const {
  int64_t bytes = scratch.bytes();
  for (const Memory &space : spaces)
    bytes += space.bytes();
  return bytes;
}

Status Program::initialize() {
  const proto::Plan &plan = loaded.plan();
  for (int i = 0; i < plan.slots_size(); ++i)
    std::memset(slotData(i), 0, static_cast<size_t>(plan.slots(i).buffer().bytes()));
  if (!plan.weights().file().empty())
    DIFFRUN_RETURN_IF_ERROR(loadWeights());
  if (loaded.findEntry("init"))
    DIFFRUN_RETURN_IF_ERROR(run("init", {}));
  return {};
}

Status Program::loadWeights() {
  const proto::Plan &plan = loaded.plan();
  constexpr const char *kHelp = "plan and weights must come from one run of diffc";
  std::string path =
      (std::filesystem::path(loaded.path()).parent_path() / plan.weights().file()).string();
  DIFFRUN_ASSIGN(auto reader, SafetensorsReader::open(path));
  if (plan.weights().checksum() && reader.checksum() != plan.weights().checksum())
    return Status::invalid(path + ": is not the file that the plan was compiled with", kHelp);
  // Names need their model's where there are several.
  std::set<std::string> models;
  for (const proto::Slot &slot : plan.slots())
    if (!slot.model().empty())
      models.insert(slot.model());
  std::set<uint32_t> drawn;
  if (const proto::Entry *init = loaded.findEntry("init"))
    for (const proto::SlotUse &use : init->commits())
      drawn.insert(use.slot());
  for (int i = 0; i < plan.slots_size(); ++i) {
    const proto::Slot &slot = plan.slots(i);
    if (slot.model().empty() || slot.role() != "weight")
      continue;
    std::string name =
        models.size() > 1 ? slot.model() + "::" + slot.parameter() : slot.parameter();
    const SafetensorsView *view = reader.find(name);
    if (!view && drawn.count(static_cast<uint32_t>(i)))
      continue;
    std::string tensor = path + ": tensor \"" + name + "\"";
    if (!view)
      return Status::invalid(tensor + " is missing", kHelp);
    if (!holds(*view, slot.type()) || static_cast<int64_t>(view->bytes) != slot.buffer().bytes())
      return Status::invalid(tensor + " is not what the plan expects", kHelp);
    std::memcpy(slotData(i), view->data, view->bytes);
  }
  return {};
}

Status Program::setScalar(const std::string &name, double value) {
  std::string known;
  for (const proto::Entry &entry : loaded.plan().entries())
    for (const proto::Input &input : entry.inputs()) {
      if (!input.scalar())
        continue;
      if (input.name() == name) {
        scalars[name] = value;
        return {};
      }
      if (known.find(input.name()) == std::string::npos)
        known += (known.empty() ? "" : ", ") + input.name();
    }
  return Status::invalid(loaded.path() + ": has no plan scalar " + name, "it has: " + known);
}

double Program::scalar(const std::string &name) const {
  if (auto found = scalars.find(name); found != scalars.end())
    return found->second;
  for (const proto::Entry &entry : loaded.plan().entries())
    for (const proto::Input &input : entry.inputs())
      if (input.scalar() && input.name() == name)
        return input.initial();
  return 0;
}

std::map<std::string, double> Program::allScalars() const {
  std::map<std::string, double> all;
  for (const proto::Entry &entry : loaded.plan().entries())
    for (const proto::Input &input : entry.inputs())
      if (input.scalar())
        all[input.name()] = scalar(input.name());
  return all;
}

namespace {

template <typename T> void store(void *to, double value) {
  T narrow = static_cast<T>(value);
  std::memcpy(to, &narrow, sizeof(narrow));
}

/// A plan scalar in its memory form.
void storeScalar(proto::DType dtype, double value, void *to) {
  auto limited = evaluate::saturate(value, static_cast<DType>(dtype));
  switch (dtype) {
  case proto::F64:
    return store<double>(to, value);
  case proto::F32:
    return store<float>(to, value);
  case proto::F16:
    return store<uint16_t>(to, floatToHalf(static_cast<float>(value)));
  case proto::BF16:
    return store<uint16_t>(to, floatToBfloat16(static_cast<float>(value)));
  case proto::I64:
    std::memcpy(to, &limited, sizeof(limited));
    return;
  case proto::I32:
    return store<int32_t>(to, static_cast<double>(limited));
  default:
    return store<uint8_t>(to, value != 0);
  }
}

} // namespace

Status Program::placeInputs(const proto::Entry &entry, const InputData &data) {
  for (const proto::Input &input : entry.inputs()) {
    void *to = at(input.buffer());
    if (!input.scalar()) {
      auto found = data.find(input.role());
      if (found == data.end() || !found->second)
        return Status::invalid(loaded.path() + ": entry " + entry.name() + " needs data for role " +
                               input.role());
      std::memcpy(to, found->second, static_cast<size_t>(input.buffer().bytes()));
      continue;
    }
    auto given = scalars.find(input.name());
    storeScalar(input.type().dtype(), given != scalars.end() ? given->second : input.initial(), to);
  }
  return {};
}

Status Program::runDraw(const proto::Entry &entry, int index, Step &step) {
  const proto::Draw &op = entry.ops(index).draw();
  auto number = [&](size_t i) { return *static_cast<const int64_t *>(step.operands[i]); };
  DrawKey key;
  key.seed = static_cast<uint64_t>(number(0));
  key.stream = op.stream();
  key.iteration = static_cast<uint64_t>(number(1));
  key.firstSample = static_cast<uint64_t>(number(2));
  auto *out = static_cast<float *>(step.results[0]);
  auto draw = op.distribution() == proto::Draw::UNIFORM ? drawUniform : drawNormal;
  // Samples are independent: each thread draws its own.
  int64_t samples = op.samples(), elements = op.elements();
  std::atomic<bool> failed{false};
#pragma omp parallel for schedule(static) if (samples > 1)
  for (int64_t sample = 0; sample < samples; ++sample) {
    DrawKey own = key;
    own.firstSample += static_cast<uint64_t>(sample);
    if (!draw(own, 1, elements, out + sample * elements))
      failed = true;
  }
  if (failed)
    return draw(key, samples, elements, out).withContext(describe(entry, index));
  return {};
}

Status Program::runOp(const proto::Entry &entry, int index) {
  const proto::Op &op = entry.ops(index);
  Step &step = steps.at(&entry)[static_cast<size_t>(index)];
  switch (op.kind_case()) {
  case proto::Op::kLaunch: {
    int64_t chunks = op.launch().chunks();
    void *const *buffers = step.buffers.data();
    KernelFunction kernel = step.kernel;
    if (chunks == 1) {
      kernel(buffers, 0);
      return {};
    }
#pragma omp parallel for schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      kernel(buffers, chunk);
    return {};
  }
  case proto::Op::kMatmul:
  case proto::Op::kConvolution:
    return step.call->run();
  case proto::Op::kDraw:
    return runDraw(entry, index, step);
  case proto::Op::kCopy:
    std::memmove(step.results[0], step.operands[0], static_cast<size_t>(op.operands(0).bytes()));
    return {};
  default:
    return Status::internal("an operation without a kind");
  }
}

Status Program::run(const std::string &name, const InputData &data) {
  const proto::Entry *entry = loaded.findEntry(name);
  if (!entry || !steps.count(entry))
    return Status::invalid(loaded.path() + ": has no entry " + name,
                           "add it to the recipe's entries and compile again");
  // The team's size belongs to the calling thread.
  omp_set_num_threads(loaded.plan().target().team());
  DIFFRUN_RETURN_IF_ERROR(placeInputs(*entry, data));
  for (int i = 0; i < entry->ops_size(); ++i)
    DIFFRUN_RETURN_IF_ERROR(runOp(*entry, i));
  return {};
}

const void *Program::output(const std::string &name, const std::string &which) const {
  const proto::Entry *entry = loaded.findEntry(name);
  if (entry)
    for (const proto::Output &output : entry->outputs())
      if (output.name() == which)
        return at(output.buffer());
  return nullptr;
}

float Program::outputFloat(const std::string &name, const std::string &which) const {
  const proto::Entry *entry = loaded.findEntry(name);
  float value = std::numeric_limits<float>::quiet_NaN();
  if (entry)
    for (const proto::Output &output : entry->outputs())
      if (output.name() == which && output.type().dtype() == proto::F32 &&
          output.buffer().bytes() == sizeof(value))
        std::memcpy(&value, at(output.buffer()), sizeof(value));
  return value;
}

} // namespace diffrun
