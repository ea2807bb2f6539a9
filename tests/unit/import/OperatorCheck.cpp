#include "tests/unit/import/OperatorCheck.h"

#include "compiler/compose/EntryBuilder.h"
#include "compiler/planwriter/Lowering.h"
#include "compiler/planwriter/Translation.h"
#include "passes/attention/Passes.h"
#include "passes/autodiff/Gradient.h"
#include "passes/fusion/Passes.h"
#include "runtime/execute/Program.h"
#include "runtime/verify/Verify.h"

#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <cmath>
#include <random>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;
using diffrun::evaluate::Tensor;

namespace diffc::test {
namespace {

bool isReal(Value value) { return isa<FloatType>(nn::tensorType(value).getElementType()); }

/// Whether the element types of all floats are such.
bool allOf(const std::vector<Tensor> &tensors, bool (*such)(diffrun::DType)) {
  return llvm::all_of(
      tensors, [&](const Tensor &tensor) { return !tensor.isReal() || such(tensor.type.dtype); });
}

/// A model whose graph also returns the loss and its gradients.
class Differentiated {
public:
  Status importPlain(const OnnxBuilder &builder, const ImportOptions &options) {
    DIFFRUN_RETURN_IF_ERROR(open(builder, options));
    outputs = block().getTerminator()->getNumOperands();
    return number();
  }

  Status import(const OnnxBuilder &builder, const ImportOptions &options,
                const std::optional<Values> &weights) {
    DIFFRUN_RETURN_IF_ERROR(open(builder, options));
    Operation *end = block().getTerminator();
    OpBuilder b(end);
    SmallVector<Value> results(end->getOperands());
    outputs = results.size();
    Value loss;
    for (auto [i, output] : llvm::enumerate(end->getOperands())) {
      if (!isReal(output) || (weights && i > 0))
        continue;
      auto type = nn::tensorType(output);
      Values factors = weights ? *weights : randomValues(type.getNumElements(), 77);
      if (static_cast<int64_t>(factors.size()) != type.getNumElements())
        return Status::internal("the weights do not fit the output");
      SmallVector<Attribute> elements;
      for (double factor : factors)
        elements.push_back(b.getFloatAttr(type.getElementType(), static_cast<float>(factor)));
      Value table = b.create<nn::ConstantOp>(end->getLoc(), DenseElementsAttr::get(type, elements));
      Value product = b.create<nn::MulOp>(end->getLoc(), output, table);
      auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
      Value sum = b.create<nn::ReduceSumOp>(end->getLoc(), product, axes, false);
      loss = loss ? b.create<nn::AddOp>(end->getLoc(), loss, sum).getResult() : sum;
    }
    if (!loss)
      return Status::internal("no float output");
    results.push_back(loss);
    SmallVector<Value> inputs(llvm::make_filter_range(block().getArguments(), isReal));
    auto gradients = buildGradients(b, loss, inputs);
    if (failed(gradients))
      return Status::internal("no gradient");
    for (auto [input, gradient] : llvm::zip_equal(inputs, *gradients)) {
      sources.push_back(cast<BlockArgument>(input).getArgNumber());
      results.push_back(gradient ? gradient : nn::zeros(b, end->getLoc(), nn::tensorType(input)));
    }
    end->setOperands(results);
    graph.setFunctionType(
        b.getFunctionType(block().getArgumentTypes(), ValueRange(results).getTypes()));
    return number();
  }

  std::string nameOf(unsigned argument) {
    if (auto input = graph.getArgAttrOfType<StringAttr>(argument, train::kInputAttr))
      return input.str();
    return graph.getArgAttrOfType<FlatSymbolRefAttr>(argument, train::kParameterAttr)
        .getValue()
        .str();
  }

  /// What the graph returns: outputs, loss, gradients.
  Result<std::vector<Tensor>> evaluate(const std::vector<Tensor> &arguments) {
    std::vector<std::optional<Tensor>> values(built.graph().values.size());
    for (size_t i = 0; i < arguments.size(); ++i)
      values[i] = arguments[i];
    DIFFRUN_RETURN_IF_ERROR(diffrun::evaluate::evaluate(
        built.graph(), 0, static_cast<int64_t>(built.graph().nodes.size()), values));
    std::vector<Tensor> results;
    for (Value result : block().getTerminator()->getOperands()) {
      DIFFRUN_ASSIGN(int64_t id, built.number(result));
      results.push_back(*values[id]);
    }
    return results;
  }

  Result<std::vector<Tensor>> argumentsFrom(const std::map<std::string, Values> &feeds) {
    std::vector<Tensor> arguments;
    for (unsigned i = 0; i < block().getNumArguments(); ++i) {
      Tensor tensor(built.graph().values[i]);
      auto feed = feeds.find(nameOf(i));
      size_t count = tensor.isReal() ? tensor.real.size() : tensor.integer.size();
      if (feed == feeds.end() || feed->second.size() != count)
        return Status::internal("no feed of the right size for " + nameOf(i));
      for (size_t k = 0; k < count; ++k)
        if (tensor.isReal())
          tensor.real[k] = static_cast<float>(feed->second[k]);
        else
          tensor.integer[k] = static_cast<int64_t>(feed->second[k]);
      arguments.push_back(std::move(tensor));
    }
    return arguments;
  }

  /// The same by a compiled plan.
  Result<std::vector<Tensor>> runCompiled(const std::vector<Tensor> &arguments) {
    EntryBuilder entry(*module, "run", /*firstUse=*/0, /*seed=*/0);
    SmallVector<Value> operands;
    for (auto [i, type] : llvm::enumerate(graph.getArgumentTypes()))
      operands.push_back(entry.input("in" + std::to_string(i), cast<RankedTensorType>(type)));
    SmallVector<Value> results = entry.inlineGraph(graph, operands);
    for (auto [i, result] : llvm::enumerate(results))
      entry.output("out" + std::to_string(i), result);
    entry.finish();
    std::vector<diffrun::evaluate::TensorType> types;
    for (Value result : results) {
      DIFFRUN_ASSIGN(auto type, nn::evaluationType(result.getType()));
      types.push_back(type);
    }
    PassManager pm(&context);
    pm.addPass(createDecomposeOps());
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    pm.addPass(createFuseKernels());
    if (failed(pm.run(*module)))
      return Status::internal("the passes failed");
    DIFFRUN_ASSIGN(auto recipe, parseRecipe("", "(none)"));
    DIFFRUN_ASSIGN(auto target, parseCpuTarget("cpu"));
    DIFFRUN_ASSIGN(auto parts, lowerToPlan(*module, recipe, target, /*team=*/2, "case"));
    DIFFRUN_ASSIGN(auto proto, toProto(parts.program(), std::move(parts.blobs)));
    DIFFRUN_ASSIGN(auto loaded, diffrun::LoadedPlan::check(proto, "case.plan"));
    DIFFRUN_ASSIGN(auto program, diffrun::Program::create(loaded));
    DIFFRUN_RETURN_IF_ERROR(program->initialize());
    std::map<std::string, std::string> data;
    diffrun::InputData feed;
    for (size_t i = 0; i < arguments.size(); ++i) {
      std::string role = "in" + std::to_string(i), &bytes = data[role];
      bytes.resize(static_cast<size_t>(arguments[i].type.count() *
                                       diffrun::byteSize(arguments[i].type.dtype)));
      diffrun::evaluate::toBytes(arguments[i], bytes.data());
      feed[role] = bytes.data();
    }
    // One by one first, which names the operation that is wrong; its tolerances are
    // those of f32.
    if (allOf(arguments, [](diffrun::DType dtype) { return dtype == diffrun::DType::kF32; })) {
      diffrun::VerifyOptions each;
      each.entry = "run";
      DIFFRUN_RETURN_IF_ERROR(diffrun::verifyEntry(*program, feed, each).status());
    }
    DIFFRUN_RETURN_IF_ERROR(program->run("run", feed));
    std::vector<Tensor> all;
    for (size_t i = 0; i < types.size(); ++i)
      all.push_back(diffrun::evaluate::fromBytes(
          types[i], program->output("run", "out" + std::to_string(i))));
    return all;
  }

  Block &block() { return graph.getBody().front(); }

  size_t outputs = 0;
  std::vector<unsigned> sources; ///< argument of each gradient

private:
  Status open(const OnnxBuilder &builder, const ImportOptions &options) {
    DIFFRUN_ASSIGN(ModelFile file, ModelFile::open(builder.save()));
    DIFFRUN_ASSIGN(module, importModel(context, file, options));
    PassManager pm(&context);
    pm.addPass(createDecomposeAttention());
    if (failed(pm.run(*module)))
      return Status::internal("attention is left");
    auto model = *module->getOps<train::ModelOp>().begin();
    graph = *model.getOps<train::GraphOp>().begin();
    return {};
  }
  Status number() {
    for (Value argument : block().getArguments())
      DIFFRUN_RETURN_IF_ERROR(built.number(argument).status());
    return built.append(block());
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  train::GraphOp graph;
  nn::EvaluationGraph built;
};

/// Slopes of the loss along single elements, 40 of them spread over a tensor.
void checkSlopes(Differentiated &model, const std::vector<Tensor> &at,
                 const std::vector<Tensor> &results) {
  for (size_t k = 0; k < model.sources.size(); ++k) {
    unsigned source = model.sources[k];
    const Tensor &gradient = results[model.outputs + 1 + k];
    size_t count = gradient.real.size(), step = std::max<size_t>(count / 40, 1);
    for (size_t i = 0; i < count; i += step) {
      constexpr double h = 1e-5;
      double side[2];
      for (int s = 0; s < 2; ++s) {
        std::vector<Tensor> moved = at;
        moved[source].real[i] += s ? -h : h;
        auto there = model.evaluate(moved);
        ASSERT_TRUE(there.ok()) << there.status().message();
        side[s] = there.value()[model.outputs].real[0];
      }
      EXPECT_NEAR(gradient.real[i], (side[0] - side[1]) / (2 * h),
                  1e-5 * (1 + std::fabs(gradient.real[i])))
          << "gradient of " << model.nameOf(source) << "[" << i << "]";
    }
  }
}

void checkCompiled(const std::vector<Tensor> &right, const std::vector<Tensor> &compiled,
                   double tolerance) {
  ASSERT_EQ(right.size(), compiled.size());
  for (size_t k = 0; k < right.size(); ++k) {
    ASSERT_EQ(right[k].type, compiled[k].type);
    EXPECT_EQ(right[k].integer, compiled[k].integer) << "result " << k;
    double largest = 1e-3;
    for (double value : right[k].real)
      largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < right[k].real.size(); ++i) {
      EXPECT_TRUE(std::isfinite(right[k].real[i])) << "result " << k << "[" << i << "]";
      EXPECT_NEAR(right[k].real[i], compiled[k].real[i], tolerance * largest)
          << "result " << k << "[" << i << "]";
    }
  }
}

} // namespace

void checkOperator(const OnnxBuilder &builder, const std::map<std::string, Values> &feeds,
                   const ImportOptions &options, double tolerance) {
  Differentiated model;
  Status imported = model.import(builder, options, std::nullopt);
  ASSERT_TRUE(imported.ok()) << imported.message();
  auto at = model.argumentsFrom(feeds);
  ASSERT_TRUE(at.ok()) << at.status().message();
  auto results = model.evaluate(*at);
  ASSERT_TRUE(results.ok()) << results.status().message();
  // A cast from a narrow type rounds steps away.
  if (allOf(*at, [](diffrun::DType dtype) { return diffrun::byteSize(dtype) >= 4; }))
    checkSlopes(model, *at, *results);
  auto compiled = model.runCompiled(*at);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  checkCompiled(*results, *compiled, tolerance);
}

Result<BothWays> runBothWays(const OnnxBuilder &builder, const std::map<std::string, Values> &feeds,
                             const ImportOptions &options) {
  Differentiated model;
  DIFFRUN_RETURN_IF_ERROR(model.importPlain(builder, options));
  DIFFRUN_ASSIGN(auto at, model.argumentsFrom(feeds));
  BothWays both;
  DIFFRUN_ASSIGN(both.evaluated, model.evaluate(at));
  DIFFRUN_ASSIGN(both.compiled, model.runCompiled(at));
  return both;
}

void expectBothWays(const OnnxBuilder &builder, const std::map<std::string, Values> &feeds,
                    const Ints &shape, const Values &expected, double tolerance,
                    const ImportOptions &options) {
  auto both = runBothWays(builder, feeds, options);
  ASSERT_TRUE(both.ok()) << both.status().message();
  for (bool compiled : {false, true}) {
    const Tensor &y = compiled ? both->compiled.front() : both->evaluated.front();
    SCOPED_TRACE(compiled ? "compiled" : "evaluated");
    ASSERT_EQ(y.type.shape, shape);
    ASSERT_EQ(y.type.count(), static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      double got = y.isReal() ? y.real[i] : static_cast<double>(y.integer[i]), want = expected[i];
      bool exact = !y.isReal() || !std::isfinite(want);
      bool same = got == want || (std::isnan(got) && std::isnan(want)) ||
                  (!exact && std::fabs(got - want) <= tolerance * std::max(1.0, std::fabs(want)));
      EXPECT_TRUE(same) << "element " << i << " is " << got << ", not " << want;
    }
  }
}

Result<Values> gradientOf(const OnnxBuilder &builder, const std::string &name,
                          const std::map<std::string, Values> &feeds, const Values &weights) {
  Differentiated model;
  DIFFRUN_RETURN_IF_ERROR(model.import(builder, {}, weights));
  DIFFRUN_ASSIGN(auto at, model.argumentsFrom(feeds));
  DIFFRUN_ASSIGN(auto results, model.evaluate(at));
  for (size_t k = 0; k < model.sources.size(); ++k)
    if (model.nameOf(model.sources[k]) == name)
      return results[model.outputs + 1 + k].real;
  return Status::internal("no input " + name);
}

Result<std::vector<Tensor>> runCompiled(const OnnxBuilder &builder,
                                        const std::map<std::string, Values> &feeds) {
  Differentiated model;
  DIFFRUN_RETURN_IF_ERROR(model.import(builder, {}, std::nullopt));
  DIFFRUN_ASSIGN(auto at, model.argumentsFrom(feeds));
  return model.runCompiled(at);
}

Values randomValues(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Values values;
  for (int64_t i = 0; i < count; ++i) {
    double size = 0.1 + 1.4 * (static_cast<double>(random() % 4096) + 0.5) / 4096;
    values.push_back((random() % 2 ? 1 : -1) * size);
  }
  return values;
}

} // namespace diffc::test
