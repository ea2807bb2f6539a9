#include "runtime/execute/Program.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/random/Draws.h"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

namespace diffrun {

using KernelFunction = void (*)(void *const *buffers, int64_t chunk);

/// One operation with everything resolved.
struct Program::Step {
  KernelFunction kernel = nullptr;
  std::unique_ptr<LibraryCall> call;
  std::vector<void *> operands, results, buffers;
};

Program::Program(LoadedPlan plan) : loaded(std::move(plan)) {}

Program::~Program() {
  if (library)
    dlclose(library);
}

Result<std::unique_ptr<Program>> Program::create(LoadedPlan plan) {
  std::unique_ptr<Program> program(new Program(std::move(plan)));
  omp_set_dynamic(0);
  omp_set_num_threads(program->loaded.plan().target().team());
  DIFFRUN_RETURN_IF_ERROR(capLibrary(program->loaded.plan().target().level()));
  DIFFRUN_RETURN_IF_ERROR(program->loadCode());
  program->before = residentBytes();
  DIFFRUN_RETURN_IF_ERROR(program->allocate());
  DIFFRUN_RETURN_IF_ERROR(program->prepare());
  return program;
}

Status Program::allocate() {
  for (const proto::Space &space : loaded.plan().spaces()) {
    DIFFRUN_ASSIGN(Memory memory,
                   Memory::allocate(space.bytes(), loaded.path() + ": " + space.name()));
    if (!space.data().empty())
      std::memcpy(memory.data(), space.data().data(), space.data().size());
    spaces.push_back(std::move(memory));
  }
  return {};
}

Status Program::loadCode() {
  const std::string &code = loaded.plan().code();
  if (code.empty())
    return {};
  int file = memfd_create("diffrun-kernels", MFD_CLOEXEC);
  if (file < 0 || write(file, code.data(), code.size()) != static_cast<ssize_t>(code.size()))
    return Status::machine(loaded.path() + ": its code cannot be put into memory");
  library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string reason = library ? "" : dlerror();
  close(file);
  if (!library)
    return Status::invalid(loaded.path() + ": its code cannot be loaded: " + reason);
  return {};
}

Status Program::prepare() {
  int64_t scratchBytes = 0;
  for (const proto::Entry &entry : loaded.plan().entries()) {
    std::vector<Step> &list = steps[&entry];
    for (int i = 0; i < entry.ops_size(); ++i) {
      const proto::Op &op = entry.ops(i);
      Step step;
      for (const proto::Buffer &buffer : op.operands())
        step.operands.push_back(at(buffer));
      for (const proto::Buffer &buffer : op.results())
        step.results.push_back(at(buffer));
      step.buffers = step.operands;
      step.buffers.insert(step.buffers.end(), step.results.begin(), step.results.end());
      if (op.has_launch()) {
        step.kernel = library ? reinterpret_cast<KernelFunction>(
                                    dlsym(library, op.launch().symbol().c_str()))
                              : nullptr;
        if (!step.kernel)
          return Status::invalid(loaded.path() + ": " + describe(entry, i) +
                                 ": its code has no kernel " + op.launch().symbol());
      } else if (op.has_matmul() || op.has_convolution()) {
        auto made = op.has_matmul() ? makeMatmul(op.matmul()) : makeConvolution(op.convolution());
        if (!made)
          return made.status().withContext(loaded.path() + ": " + describe(entry, i));
        step.call = std::move(*made);
        scratchBytes = std::max(scratchBytes, step.call->scratchBytes());
      }
      list.push_back(std::move(step));
    }
  }
  DIFFRUN_ASSIGN(scratch, Memory::allocate(scratchBytes, loaded.path() + ": scratch of oneDNN"));
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
  if (!plan.weights().file().empty()) {
    std::string path =
        (std::filesystem::path(loaded.path()).parent_path() / plan.weights().file()).string();
    DIFFRUN_ASSIGN(auto reader, SafetensorsReader::open(path));
    for (const std::string &name : reader.names()) {
      int64_t slot = loaded.findSlot(name, "weight");
      if (slot < 0)
        continue;
      const SafetensorsView &view = *reader.find(name);
      const proto::Slot &to = plan.slots(static_cast<int>(slot));
      if (std::vector<int64_t>(to.type().shape().begin(), to.type().shape().end()) != view.shape ||
          static_cast<int64_t>(view.bytes) != to.buffer().bytes())
        return Status::invalid(path + ": tensor \"" + name + "\" is not what the plan expects",
                               "plan and weights must come from one run of diffc");
      std::memcpy(slotData(slot), view.data, view.bytes);
    }
  }
  if (loaded.findEntry("init"))
    DIFFRUN_RETURN_IF_ERROR(run("init", {}));
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

Status Program::placeInputs(const proto::Entry &entry, const InputData &data) {
  for (const proto::Input &input : entry.inputs()) {
    void *to = at(input.buffer());
    if (!input.scalar()) {
      auto found = data.find(input.role());
      if (found == data.end() || !found->second)
        return Status::invalid("entry " + entry.name() + " needs data for role " + input.role());
      std::memcpy(to, found->second, static_cast<size_t>(input.buffer().bytes()));
      continue;
    }
    auto given = scalars.find(input.name());
    double value = given != scalars.end() ? given->second : input.initial();
    evaluate::Tensor tensor({static_cast<DType>(input.type().dtype()), {}});
    if (tensor.isReal())
      tensor.real[0] = value;
    else
      tensor.integer[0] = static_cast<int64_t>(value);
    evaluate::toBytes(tensor, to);
  }
  return {};
}

Status Program::runOp(const proto::Entry &entry, int index) {
  const proto::Op &op = entry.ops(index);
  Step &step = steps.at(&entry)[static_cast<size_t>(index)];
  switch (op.kind_case()) {
  case proto::Op::kLaunch: {
    int64_t chunks = op.launch().chunks();
    void *const *buffers = step.buffers.data();
    if (chunks == 1) {
      step.kernel(buffers, 0);
      return {};
    }
    KernelFunction kernel = step.kernel;
#pragma omp parallel for schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      kernel(buffers, chunk);
    return {};
  }
  case proto::Op::kMatmul:
  case proto::Op::kConvolution:
    step.call->run(step.operands, step.results, scratch.data());
    return {};
  case proto::Op::kDraw: {
    auto number = [&](int i) { return *static_cast<const int64_t *>(step.operands[i]); };
    DrawKey key;
    key.seed = static_cast<uint64_t>(number(0));
    key.stream = op.draw().stream();
    key.iteration = static_cast<uint64_t>(number(1));
    key.firstSample = static_cast<uint64_t>(number(2));
    auto *out = static_cast<float *>(step.results[0]);
    auto draw = op.draw().distribution() == proto::Draw::UNIFORM ? drawUniform : drawNormal;
    // Samples are independent: each thread draws its own.
    int64_t samples = op.draw().samples(), elements = op.draw().elements();
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
  case proto::Op::kCopy:
    std::memmove(step.results[0], step.operands[0],
                 static_cast<size_t>(op.operands(0).bytes()));
    return {};
  default:
    return Status::internal("an operation without a kind");
  }
}

Status Program::run(const std::string &name, const InputData &data) {
  const proto::Entry *entry = loaded.findEntry(name);
  if (!entry)
    return Status::invalid(loaded.path() + ": has no entry " + name,
                           "add it to the recipe's entries and compile again");
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

float Program::outputFloat(const std::string &entry, const std::string &name) const {
  const void *data = output(entry, name);
  float value = 0;
  if (data)
    std::memcpy(&value, data, sizeof(value));
  return value;
}

} // namespace diffrun
