#include "tests/conformance/NodeCase.h"

#include "compiler/compose/EntryBuilder.h"
#include "compiler/import/NodeImport.h"
#include "compiler/planwriter/Lowering.h"
#include "compiler/planwriter/Translation.h"
#include "dialects/nn/IR/Evaluation.h"
#include "passes/fusion/Passes.h"
#include "passes/raise/Passes.h"
#include "runtime/execute/Program.h"

#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;
using diffrun::evaluate::Tensor;

namespace diffc::conformance {
namespace {

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7; // the ONNX project's own
};

using Infos = google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>;

/// Why a value is of a kind that diffc does not have; empty if it is not.
std::string foreignKind(MLIRContext &context, const onnx::ValueInfoProto &info) {
  if (!info.type().has_tensor_type())
    return "a sequence, map or optional value";
  int32_t type = info.type().tensor_type().elem_type();
  if (!elementType(context, type))
    return "element type " + std::to_string(type);
  return {};
}

class CaseRun {
public:
  CaseRun(const std::string &folder, bool compile)
      : folder(folder), compiles(compile), context(MLIRContext::Threading::DISABLED) {}

  Outcome run() {
    auto opened = ModelFile::open(folder + "/model.onnx");
    if (!opened.ok())
      return {Verdict::kFailed, opened.status().message()};
    file.emplace(std::move(*opened));
    for (const Infos *infos : {&file->graph().input(), &file->graph().output()})
      for (const auto &info : *infos)
        if (std::string kind = foreignKind(context, info); !kind.empty())
          return {Verdict::kSkipped, kind};
    std::ifstream(folder + "/tolerance") >> tolerance.relative >> tolerance.absolute;
    Status status = steps();
    return status.ok() ? Outcome() : Outcome{Verdict::kFailed, status.message()};
  }

private:
  Status steps() {
    DIFFRUN_ASSIGN(inputs, stored("input", file->graph().input()));
    DIFFRUN_ASSIGN(expected, stored("output", file->graph().output()));
    DIFFRUN_RETURN_IF_ERROR(import());
    DIFFRUN_RETURN_IF_ERROR(evaluate());
    return compiles ? runPlan() : Status();
  }

  Result<std::vector<onnx::TensorProto>> stored(const char *side, const Infos &infos) const {
    std::vector<onnx::TensorProto> all;
    for (int i = 0; i < infos.size(); ++i) {
      std::string path = folder + "/test_data_set_0/" + side + "_" + std::to_string(i) + ".pb";
      std::ifstream stream(path, std::ios::binary);
      onnx::TensorProto tensor;
      if (!stream || !tensor.ParseFromIstream(&stream))
        return Status::invalid(path + " cannot be read");
      all.push_back(tensor);
    }
    return all;
  }

  static bool isInteger(const onnx::TensorProto &tensor) {
    return tensor.data_type() == onnx::TensorProto::INT64 ||
           tensor.data_type() == onnx::TensorProto::INT32;
  }

  /// Whether input `i` becomes a constant at the given step of trying.
  bool binds(int step, size_t i) const {
    const onnx::TensorProto &tensor = inputs[i];
    switch (step) {
    case 0:
      return false;
    case 1:
      return isInteger(tensor) && tensor.dims_size() <= 1;
    case 2:
      return i > 0 && tensor.dims_size() <= 1;
    case 3:
      return i > 0;
    default:
      return true;
    }
  }

  Status import() {
    Status first;
    for (int step = 0; step <= 4; ++step) {
      ImportOptions options;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto &info = file->graph().input(static_cast<int>(i));
        if (binds(step, i))
          options.constants[info.name()] = inputs[i];
        // Dimensions without a value: those of the data.
        const auto &shape = info.type().tensor_type().shape();
        for (int d = 0; d < shape.dim_size(); ++d)
          if (!shape.dim(d).dim_param().empty())
            options.dimensions[shape.dim(d).dim_param()] = inputs[i].dims(d);
      }
      auto imported = importModel(context, *file, options);
      if (imported.ok()) {
        module = std::move(*imported);
        model = *module->getOps<train::ModelOp>().begin();
        graph = *model.getOps<train::GraphOp>().begin();
        return {};
      }
      if (step == 0)
        first = imported.status();
    }
    return first;
  }

  /// The stored input or initializer that an argument of the graph stands for.
  Result<const onnx::TensorProto *> dataOf(unsigned argument) {
    std::string name;
    if (auto input = graph.getArgAttrOfType<StringAttr>(argument, train::kInputAttr))
      name = input.str();
    else
      name = graph.getArgAttrOfType<FlatSymbolRefAttr>(argument, train::kParameterAttr)
                 .getValue()
                 .str();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (file->graph().input(static_cast<int>(i)).name() == name)
        return &inputs[i];
    for (const auto &tensor : file->graph().initializer())
      if (tensor.name() == name)
        return &tensor;
    return Status::internal("no data for \"" + name + "\"");
  }

  Status evaluate() {
    Block &block = graph.getBody().front();
    nn::EvaluationGraph built;
    for (Value argument : block.getArguments())
      DIFFRUN_RETURN_IF_ERROR(built.number(argument).status());
    DIFFRUN_RETURN_IF_ERROR(built.append(block));
    std::vector<std::optional<Tensor>> values(built.graph().values.size());
    for (unsigned i = 0; i < block.getNumArguments(); ++i) {
      DIFFRUN_ASSIGN(const onnx::TensorProto *data, dataOf(i));
      DIFFRUN_ASSIGN(std::string bytes, file->bytes(*data));
      values[i] = diffrun::evaluate::fromBytes(built.graph().values[i], bytes.data());
    }
    DIFFRUN_RETURN_IF_ERROR(diffrun::evaluate::evaluate(
        built.graph(), 0, static_cast<int64_t>(built.graph().nodes.size()), values));
    for (auto [i, output] : llvm::enumerate(block.getTerminator()->getOperands())) {
      DIFFRUN_ASSIGN(int64_t id, built.number(output));
      DIFFRUN_RETURN_IF_ERROR(compare("evaluated", i, *values[id]));
    }
    return {};
  }

  Status compare(const char *how, size_t index, const Tensor &got) {
    const onnx::TensorProto &want = expected[index];
    std::string where =
        std::string(how) + " output " + file->graph().output(static_cast<int>(index)).name();
    DIFFRUN_ASSIGN(std::string bytes, file->bytes(want));
    auto type = RankedTensorType::get(SmallVector<int64_t>(want.dims().begin(), want.dims().end()),
                                      elementType(context, want.data_type()));
    DIFFRUN_ASSIGN(auto wantedType, nn::evaluationType(type));
    if (got.type != wantedType)
      return Status::invalid(where + " is " + got.type.str() + ", not " + wantedType.str());
    Tensor right = diffrun::evaluate::fromBytes(wantedType, bytes.data());
    for (size_t i = 0; i < right.integer.size(); ++i)
      if (right.integer[i] != got.integer[i])
        return differs(where, i, static_cast<double>(got.integer[i]),
                       static_cast<double>(right.integer[i]));
    // The reference computes in the type itself, rounding on its way: two units in
    // the last place of a 16-bit one.
    double relative = tolerance.relative;
    if (wantedType.dtype == diffrun::DType::kF16)
      relative = std::max(relative, std::ldexp(1.0, -9));
    if (wantedType.dtype == diffrun::DType::kBF16)
      relative = std::max(relative, std::ldexp(1.0, -6));
    for (size_t i = 0; i < right.real.size(); ++i) {
      double a = got.real[i], b = right.real[i];
      bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                  std::abs(a - b) <= tolerance.absolute + relative * std::abs(b);
      if (!same)
        return differs(where, i, a, b);
    }
    return {};
  }

  static Status differs(const std::string &where, size_t i, double got, double want) {
    std::ostringstream text;
    text.precision(9);
    text << where << "[" << i << "] is " << got << ", not " << want;
    return Status::invalid(text.str());
  }

  Status runPlan() {
    PassManager raise(&context);
    buildRaisePipeline(raise);
    if (failed(raise.run(*module)))
      return Status::internal("raising failed");
    EntryBuilder entry(*module, "run", /*firstUse=*/0, /*seed=*/0);
    SmallVector<Value> operands;
    for (auto [i, type] : llvm::enumerate(graph.getArgumentTypes()))
      operands.push_back(entry.input("in" + std::to_string(i), cast<RankedTensorType>(type)));
    SmallVector<Value> results = entry.inlineGraph(graph, operands);
    SmallVector<Type> types; // fusion replaces the values
    for (auto [i, result] : llvm::enumerate(results)) {
      types.push_back(result.getType());
      entry.output("out" + std::to_string(i), result);
    }
    entry.finish();

    PassManager pm(&context);
    pm.addPass(createDecomposeOps());
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    pm.addPass(createFuseKernels());
    if (failed(pm.run(*module)))
      return Status::internal("the passes failed");
    DIFFRUN_ASSIGN(auto recipe, parseRecipe("", "(none)"));
    DIFFRUN_ASSIGN(auto target, parseCpuTarget("cpu"));
    DIFFRUN_ASSIGN(auto parts, lowerToPlan(*module, recipe, target, /*team=*/1, "case"));
    DIFFRUN_ASSIGN(auto proto, toProto(parts.program(), std::move(parts.blobs)));
    DIFFRUN_ASSIGN(auto loaded, diffrun::LoadedPlan::check(proto, "case.plan"));
    DIFFRUN_ASSIGN(auto program, diffrun::Program::create(loaded));
    DIFFRUN_RETURN_IF_ERROR(program->initialize());
    std::map<std::string, std::string> data;
    diffrun::InputData feed;
    for (unsigned i = 0; i < operands.size(); ++i) {
      DIFFRUN_ASSIGN(const onnx::TensorProto *tensor, dataOf(i));
      std::string role = "in" + std::to_string(i);
      DIFFRUN_ASSIGN(data[role], file->bytes(*tensor));
      feed[role] = data[role].data();
    }
    DIFFRUN_RETURN_IF_ERROR(program->run("run", feed));
    for (size_t i = 0; i < types.size(); ++i) {
      DIFFRUN_ASSIGN(auto type, nn::evaluationType(types[i]));
      const void *bytes = program->output("run", "out" + std::to_string(i));
      DIFFRUN_RETURN_IF_ERROR(compare("compiled", i, diffrun::evaluate::fromBytes(type, bytes)));
    }
    return {};
  }

  std::string folder;
  bool compiles;
  MLIRContext context;
  std::optional<ModelFile> file;
  std::vector<onnx::TensorProto> inputs, expected;
  Tolerance tolerance;
  OwningOpRef<ModuleOp> module;
  train::ModelOp model;
  train::GraphOp graph;
};

} // namespace

Outcome runCase(const std::string &folder, bool compile) { return CaseRun(folder, compile).run(); }

} // namespace diffc::conformance
