#include "compiler/compose/Compose.h"

#include "compiler/compose/Objective.h"
#include "compiler/import/Importer.h"
#include "passes/attention/Passes.h"
#include "passes/autodiff/Gradient.h"
#include "passes/raise/Passes.h"

#include <fmt/format.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <cmath>
#include <set>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

/// One of the program's models.
struct Model {
  const ModelRecipe *recipe;
  const ModelFile *file;
  std::map<std::string, std::string> roles; ///< graph input -> role
  train::ModelOp op;

  const std::string &name() const { return recipe->name; }
};

class Composer {
public:
  Composer(MLIRContext &context, ArrayRef<ModelFile> files, const Recipe &recipe)
      : context(context), recipe(recipe) {
    for (auto [model, file] : llvm::zip_equal(recipe.models, files))
      models.push_back({&model, &file, {}, {}});
  }

  Result<Composed> run() {
    for (Model &model : models) {
      DIFFRUN_RETURN_IF_ERROR(importGraphs(model));
      DIFFRUN_RETURN_IF_ERROR(findRoles(model));
      DIFFRUN_RETURN_IF_ERROR(checkDraws(model));
    }
    DIFFRUN_RETURN_IF_ERROR(findTrainable());
    buildInit();
    if (recipe.accumulate > 1)
      DIFFRUN_RETURN_IF_ERROR(buildAccumulation());
    else
      DIFFRUN_RETURN_IF_ERROR(buildStep("step", NoiseSource::kDraw));
    DIFFRUN_RETURN_IF_ERROR(buildStep("step_fed", NoiseSource::kFed));
    for (auto &[name, entry] : recipe.entries)
      if (name == "eval")
        DIFFRUN_RETURN_IF_ERROR(buildEval(entry));
      else
        buildModelEntry(name, entry);
    if (failed(verify(*composed.program)))
      return Status::internal(recipe.path + ": the composed program does not verify");
    return std::move(composed);
  }

private:
  Model &trained() { return models[recipe.trainedIndex]; }
  Model &named(const std::string &name) {
    return *llvm::find_if(models, [&](Model &model) { return model.name() == name; });
  }

  //===--- Import ----------------------------------------------------------===//

  /// The symbolic dimensions: the first one of an input is the batch, others
  /// are the recipe's.
  Result<std::map<std::string, int64_t>> bind(Model &model, int64_t batch) {
    std::map<std::string, int64_t> bound = recipe.dimensions;
    for (const auto &input : model.file->graph().input()) {
      if (!input.type().has_tensor_type() || input.type().tensor_type().shape().dim_size() == 0)
        continue;
      const auto &first = input.type().tensor_type().shape().dim(0);
      if (!first.dim_param().empty())
        bound.emplace(first.dim_param(), batch);
    }
    return bound;
  }

  Status importGraphs(Model &model) {
    std::set<int64_t> batches;
    if (&model == &trained())
      batches.insert(recipe.batch);
    for (auto &[name, entry] : recipe.entries)
      if (entry.model == model.name())
        batches.insert(entry.batch);
    if (batches.empty())
      return Status::invalid(recipe.path + ": nothing uses model \"" + model.name() + "\"",
                             "name it in an entry: entries: {NAME: {model: " + model.name() +
                                 ", batch: N}}");
    for (int64_t batch : batches) {
      ImportOptions options;
      options.modelName = model.name();
      options.graphName = "b" + std::to_string(batch);
      DIFFRUN_ASSIGN(options.dimensions, bind(model, batch));
      DIFFRUN_ASSIGN(auto module, importModel(context, *model.file, options));
      PassManager pm(&context);
      buildRaisePipeline(pm);
      pm.addPass(createDecomposeAttention());
      pm.addPass(createCanonicalizerPass());
      pm.addPass(createCSEPass());
      if (failed(pm.run(*module)))
        return Status::internal(model.file->path() + ": raising failed");
      auto imported = *module->getOps<train::ModelOp>().begin();
      if (model.op) {
        auto graph = *imported.getOps<train::GraphOp>().begin();
        graph->moveBefore(&model.op.getBody().front(), model.op.getBody().front().end());
        continue;
      }
      model.op = imported;
      if (!composed.program)
        composed.program = std::move(module);
      else
        imported->moveBefore(composed.program->getBody(), composed.program->getBody()->end());
    }
    return {};
  }

  static train::GraphOp graphOf(Model &model, int64_t batch) {
    return cast<train::GraphOp>(SymbolTable::lookupSymbolIn(model.op, "b" + std::to_string(batch)));
  }

  //===--- Roles and parameters --------------------------------------------===//

  static SmallVector<GraphInput> inputsOf(Model &model, train::GraphOp graph) {
    SmallVector<GraphInput> inputs;
    for (unsigned i = 0; i < graph.getNumArguments(); ++i)
      if (auto name = graph.getArgAttrOfType<StringAttr>(i, train::kInputAttr)) {
        auto role = model.roles.find(name.str());
        inputs.push_back({name.str(), role == model.roles.end() ? "" : role->second,
                          cast<RankedTensorType>(graph.getArgumentTypes()[i])});
      }
    return inputs;
  }

  static std::string guess(const std::string &name, RankedTensorType type) {
    bool isFloat = isa<FloatType>(type.getElementType());
    if (isFloat && type.getRank() >= 3)
      return "noisy";
    if (type.getRank() <= 1 && (name == "t" || name.find("time") != std::string::npos))
      return "timestep";
    if (!isFloat && type.getRank() == 1)
      return "label";
    return "";
  }

  /// The trained model's inputs are what the objective gives: a role each. A
  /// model that only runs takes data under its inputs' own names, unless the
  /// recipe gives roles.
  Status findRoles(Model &model) {
    std::map<std::string, std::string> taken;
    bool isTrained = &model == &trained();
    auto graph = cast<train::GraphOp>(*model.op.getOps<train::GraphOp>().begin());
    auto inputs = inputsOf(model, graph);
    const std::string &path = model.file->path();
    for (auto &[name, role] : model.recipe->inputs)
      if (llvm::none_of(inputs, [&](const GraphInput &input) { return input.name == name; }))
        return Status::invalid(recipe.path + ": inputs." + name + ": " + path +
                               " has no input of this name");
    for (const GraphInput &input : inputs) {
      auto given = model.recipe->inputs.find(input.name);
      bool isGiven = given != model.recipe->inputs.end();
      std::string role = isGiven     ? given->second
                         : isTrained ? guess(input.name, input.type)
                                     : input.name;
      if (role.empty())
        return Status::invalid(
            recipe.path + ": the role of graph input \"" + input.name + "\" is not clear",
            "give it: inputs: {" + input.name + ": ROLE}, or data if it is none");
      if (!isGiven && isTrained)
        composed.decisions.push_back("input " + input.name + " taken as role " + role);
      if (!taken.emplace(role, input.name).second)
        return Status::invalid(recipe.path + ": graph inputs \"" + taken[role] + "\" and \"" +
                                   input.name + "\" both have role " + role,
                               "give them under inputs:");
      model.roles[input.name] = role;
    }
    return checkBatches(model);
  }

  /// Each graph's inputs begin with the batch that it was bound to.
  Status checkBatches(Model &model) {
    for (auto graph : model.op.getOps<train::GraphOp>()) {
      int64_t batch = 0;
      graph.getSymName().drop_front().getAsInteger(10, batch);
      for (const GraphInput &input : inputsOf(model, graph)) {
        int64_t first = input.type.getRank() ? input.type.getDimSize(0) : batch;
        if (first != batch)
          return Status::invalid(model.file->path() + ": input \"" + input.name +
                                     "\" is exported for a batch of " + std::to_string(first) +
                                     ", the recipe wants " + std::to_string(batch),
                                 "export it with a symbolic batch, or set batch");
      }
    }
    return {};
  }

  Status checkDraws(Model &model) {
    if (model.recipe->weights != "init")
      return {};
    for (auto parameter : model.op.getOps<train::ParameterOp>())
      if (!parameter.getInit())
        return Status::invalid(model.file->path() + ": does not say how parameter \"" +
                                   parameter.getSymName().str() + "\" is drawn",
                               "use weights: model, or a graph-only model");
    return {};
  }

  auto trainedParameters() { return trained().op.getOps<train::ParameterOp>(); }

  Status findTrainable() {
    for (auto parameter : trainedParameters()) {
      std::string name = parameter.getSymName().str();
      if (llvm::none_of(recipe.trainable,
                        [&](const std::string &p) { return matchesPattern(p, name); }))
        continue;
      // Moments, averages and the update are f32.
      if (!typeOf(parameter).getElementType().isF32())
        return Status::invalid(fmt::format("{}: parameter \"{}\" is {}; f32 ones are trained",
                                           trained().file->path(), name,
                                           printed(typeOf(parameter).getElementType())),
                               "convert the model to float32, or freeze it (trainable)");
      trainable.insert(name);
    }
    auto matchesNone = [&](const std::string &pattern) {
      return llvm::none_of(trainedParameters(), [&](train::ParameterOp p) {
        return matchesPattern(pattern, p.getSymName().str());
      });
    };
    auto wrong = [&](const std::string &key, const std::string &pattern) {
      std::string names; // the first few say how they are built
      for (auto [i, parameter] : llvm::enumerate(trainedParameters()))
        if (i < 3)
          names += parameter.getSymName().str() + ", ";
      return Status::invalid(recipe.path + ": " + key + ": \"" + pattern +
                                 "\" matches no parameter of " + trained().file->path(),
                             "its parameters are " + names + "...");
    };
    for (const std::string &pattern : recipe.trainable)
      if (matchesNone(pattern))
        return wrong("trainable", pattern);
    for (const ParameterGroup &group : recipe.optimizer.groups)
      if (matchesNone(group.match))
        return wrong("optimizer.groups", group.match);
    return {};
  }

  bool isTrainable(Model &model, const std::string &parameter) {
    return &model == &trained() && trainable.count(parameter);
  }

  static std::string printed(Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  }
  static RankedTensorType typeOf(train::ParameterOp parameter) {
    return cast<RankedTensorType>(parameter.getType());
  }

  //===--- Entries ---------------------------------------------------------===//

  int64_t nextUses() { return 64 * entryCount++; }

  /// Draws or copies the first state: weights as they are initialised, each
  /// average a copy of its weight. Moments and counters start at zero.
  void buildInit() {
    EntryBuilder e(*composed.program, "init", int64_t{1} << 24, recipe.seed);
    Value zero = e.integer(0);
    for (Model &model : models)
      for (auto parameter : model.op.getOps<train::ParameterOp>()) {
        std::string name = parameter.getSymName().str();
        RankedTensorType type = typeOf(parameter);
        Attribute init = parameter.getInit().value_or(Attribute());
        bool draws = init && !model.recipe->weightsAreFile();
        // Also what no entry uses is read: a checkpoint holds the whole model.
        Value weight =
            draws ? drawn(e, init, type, zero) : e.read(model.name(), name, "weight", type);
        if (draws)
          e.commit(model.name(), name, "weight", weight);
        for (size_t k = 0; isTrainable(model, name) && k < recipe.emaDecays.size(); ++k)
          e.commit(model.name(), name, "ema" + std::to_string(k), weight);
      }
    e.finish();
  }

  static double number(FloatAttr attr) { return attr.getValueAsDouble(); }

  Value drawn(EntryBuilder &e, Attribute init, RankedTensorType type, Value iteration) {
    // One "sample": the whole tensor, in row-major order.
    SmallVector<int64_t> flat{1, type.getNumElements()};
    Value value;
    if (auto normal = dyn_cast<train::NormalInitAttr>(init))
      value = e.add(
          e.mul(e.draw("normal", flat, iteration, iteration), e.c(number(normal.getDeviation()))),
          e.c(number(normal.getMean())));
    else if (auto uniform = dyn_cast<train::UniformInitAttr>(init))
      value = e.add(e.mul(e.draw("uniform", flat, iteration, iteration),
                          e.c(number(uniform.getHigh()) - number(uniform.getLow()))),
                    e.c(number(uniform.getLow())));
    else
      value = nn::broadcastTo(e.builder(),
                              e.c(number(cast<train::ConstantInitAttr>(init).getValue())), flat);
    return e.cast(nn::reshape(e.builder(), value, type.getShape()), type.getElementType());
  }

  /// Runs a graph on data, its parameters read in the given role.
  RunModel runner(EntryBuilder &e, Model &model, train::GraphOp graph, const std::string &role) {
    return [this, &e, &model, graph, role](ValueRange data) mutable {
      SmallVector<Value> operands;
      size_t next = 0;
      for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
        auto symbol = graph.getArgAttrOfType<FlatSymbolRefAttr>(i, train::kParameterAttr);
        if (!symbol) {
          operands.push_back(data[next++]);
          continue;
        }
        std::string name = symbol.getValue().str();
        bool averaged = isTrainable(model, name);
        operands.push_back(e.read(model.name(), name, averaged ? role : "weight",
                                  cast<RankedTensorType>(graph.getArgumentTypes()[i])));
      }
      return e.inlineGraph(graph, operands);
    };
  }

  /// The trainable parameters with their weights as the entry reads them.
  struct Trainable {
    SmallVector<train::ParameterOp> parameters;
    SmallVector<Value> weights;
  };
  Trainable readTrainable(EntryBuilder &e) {
    Trainable result;
    for (auto parameter : trainedParameters()) {
      std::string name = parameter.getSymName().str();
      if (!trainable.count(name))
        continue;
      result.parameters.push_back(parameter);
      result.weights.push_back(e.read(trained().name(), name, "weight", typeOf(parameter)));
    }
    return result;
  }

  /// d(scalar)/d(weight) per trainable parameter; null where it does not reach
  /// the scalar.
  Result<SmallVector<Value>> gradientsOf(EntryBuilder &e, Value scalar, Trainable &all) {
    std::string reason;
    ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
      std::string where;
      if (auto node = diagnostic.getLocation()->findInstanceOf<NameLoc>())
        where = "node \"" + node.getName().str() + "\": ";
      reason += where + diagnostic.str();
      return success();
    });
    auto gradients = buildGradients(e.builder(), scalar, all.weights);
    if (failed(gradients))
      return Status::invalid(trained().file->path() + ": " + reason,
                             "freeze what lies behind it (trainable)");
    if (llvm::none_of(*gradients, [](Value gradient) { return !!gradient; }))
      return Status::invalid(recipe.path + ": no trainable parameter reaches the loss");
    for (auto [parameter, gradient] : llvm::zip_equal(all.parameters, *gradients))
      if (!gradient && unreached.insert(parameter.getSymName().str()).second)
        composed.decisions.push_back("parameter " + parameter.getSymName().str() +
                                     " does not reach the loss: its gradient is 0");
    return *gradients;
  }

  /// Norm, clipping, learning rate, updates, averages; counts the iteration and,
  /// if the norm is finite, the step.
  void applyGradients(EntryBuilder &e, Trainable &all, ArrayRef<Value> gradients) {
    Value iteration = e.counter("iteration"), step = e.counter("step");
    SmallVector<Value> flowing;
    for (Value gradient : gradients)
      if (gradient)
        flowing.push_back(gradient);
    auto scalarType = RankedTensorType::get({}, e.f32());
    Value norm = e.builder().create<train::GlobalNormOp>(e.loc(), scalarType, flowing);
    Value infinity = e.c(std::numeric_limits<double>::infinity());
    Value ok = e.builder().create<nn::LessOp>(e.loc(), norm, infinity);
    Value scale = e.c(1);
    if (recipe.optimizer.clip > 0)
      scale = e.minimum(
          e.c(1), e.div(e.scalar("clip", e.f32(), recipe.optimizer.clip), e.add(norm, e.c(1e-6))));
    Value done = e.cast(step, e.f32());
    Value lr = learningRate(e, done);
    Value thisStep = e.add(step, e.integer(1));
    SmallVector<Value> decays = averageDecays(e, done);
    for (auto [parameter, weight, gradient] :
         llvm::zip_equal(all.parameters, all.weights, gradients))
      update(e, parameter, weight, gradient, lr, thisStep, scale, ok, decays);
    e.commit("", "iteration", "value", e.add(iteration, e.integer(1)));
    e.commit("", "step", "value", e.builder().create<nn::SelectOp>(e.loc(), ok, thisStep, step));
    e.output("norm", norm);
    e.output("lr", lr);
  }

  Status buildStep(const std::string &name, NoiseSource source) {
    EntryBuilder e(*composed.program, name, nextUses(), recipe.seed);
    train::GraphOp graph = graphOf(trained(), recipe.batch);
    auto inputs = inputsOf(trained(), graph);
    DIFFRUN_ASSIGN(LossResult result,
                   buildLoss(e, recipe, inputs, source, e.counter("iteration"), e.integer(0),
                             runner(e, trained(), graph, "weight")));
    Trainable all = readTrainable(e);
    DIFFRUN_ASSIGN(SmallVector<Value> gradients, gradientsOf(e, result.loss, all));
    e.output("loss", result.loss);
    applyGradients(e, all, gradients);
    if (source == NoiseSource::kFed) {
      e.output("out", result.first);
      for (auto [parameter, gradient] : llvm::zip_equal(all.parameters, gradients))
        if (gradient)
          e.output("grad." + parameter.getSymName().str(), gradient);
    }
    e.finish();
    return {};
  }

  /// Two entries instead of one step: `accumulate` adds the gradients of the
  /// summed loss and counts samples, `apply` divides by the samples and updates.
  /// So a short window or batch weighs every sample the same.
  Status buildAccumulation() {
    EntryBuilder e(*composed.program, "accumulate", nextUses(), recipe.seed);
    train::GraphOp graph = graphOf(trained(), recipe.batch);
    auto inputs = inputsOf(trained(), graph);
    Value micro = e.counter("micro");
    Value first = e.mul(micro, e.integer(recipe.batch));
    DIFFRUN_ASSIGN(LossResult result,
                   buildLoss(e, recipe, inputs, NoiseSource::kDraw, e.counter("iteration"), first,
                             runner(e, trained(), graph, "weight")));
    Trainable all = readTrainable(e);
    DIFFRUN_ASSIGN(SmallVector<Value> gradients, gradientsOf(e, result.sum, all));
    auto real = RankedTensorType::get({}, e.f32());
    for (auto [parameter, gradient] : llvm::zip_equal(all.parameters, gradients)) {
      std::string name = parameter.getSymName().str();
      if (gradient)
        e.commit(trained().name(), name, "grad",
                 e.add(e.read(trained().name(), name, "grad", typeOf(parameter)), gradient));
    }
    e.commit("", "micro", "value", e.add(micro, e.integer(1)));
    e.commit("", "samples", "value", e.add(e.read("", "samples", "value", real), result.samples));
    e.commit("", "loss_sum", "value", e.add(e.read("", "loss_sum", "value", real), result.sum));
    e.output("loss", result.loss);
    e.finish();

    EntryBuilder a(*composed.program, "apply", nextUses(), recipe.seed);
    Trainable targets = readTrainable(a);
    Value samples = a.maximum(a.read("", "samples", "value", real), a.c(1));
    SmallVector<Value> means;
    for (auto [parameter, gradient] : llvm::zip_equal(targets.parameters, gradients)) {
      std::string name = parameter.getSymName().str();
      if (!gradient) {
        means.push_back({});
        continue;
      }
      Value sum = a.read(trained().name(), name, "grad", typeOf(parameter));
      means.push_back(a.div(sum, samples));
      a.commit(trained().name(), name, "grad", nn::zeros(a.builder(), a.loc(), typeOf(parameter)));
    }
    a.output("loss", a.div(a.read("", "loss_sum", "value", real), samples));
    applyGradients(a, targets, means);
    a.commit("", "micro", "value", a.integer(0));
    a.commit("", "samples", "value", a.c(0));
    a.commit("", "loss_sum", "value", a.c(0));
    a.finish();
    return {};
  }

  /// Warm-up, then constant, cosine or linear to 0; k updates are done.
  Value learningRate(EntryBuilder &e, Value done) {
    const OptimizerRecipe &o = recipe.optimizer;
    Value base = e.scalar("lr", e.f32(), o.lr);
    Value warmup = e.scalar("warmup", e.f32(), static_cast<double>(o.warmup));
    // Update k + 1 of w warm-up ones has (k + 1) / w of the rate.
    Value ramp = e.minimum(e.c(1), e.div(e.add(done, e.c(1)), e.maximum(warmup, e.c(1))));
    Value lr = e.mul(base, ramp);
    if (o.schedule == "constant")
      return lr;
    Value total = e.scalar("lr_steps", e.f32(), static_cast<double>(o.steps));
    Value span = e.maximum(e.sub(total, warmup), e.c(1));
    Value progress = e.minimum(e.c(1), e.maximum(e.c(0), e.div(e.sub(done, warmup), span)));
    if (o.schedule == "linear")
      return e.mul(lr, e.sub(e.c(1), progress));
    Value angle = e.mul(progress, e.c(M_PI));
    Value cosine = e.builder().create<nn::CosOp>(e.loc(), angle);
    return e.mul(lr, e.mul(e.c(0.5), e.add(e.c(1), cosine)));
  }

  /// min(decay, (1 + n) / (10 + n)) with n the updates done, this one included.
  SmallVector<Value> averageDecays(EntryBuilder &e, Value done) {
    SmallVector<Value> decays;
    Value n = e.add(done, e.c(1));
    for (auto [k, decay] : llvm::enumerate(recipe.emaDecays)) {
      Value d = e.scalar("ema_decay" + std::to_string(k), e.f32(), decay);
      if (recipe.emaWarmup)
        d = e.minimum(d, e.div(e.add(e.c(1), n), e.add(e.c(10), n)));
      decays.push_back(d);
    }
    return decays;
  }

  void update(EntryBuilder &e, train::ParameterOp parameter, Value weight, Value gradient, Value lr,
              Value step, Value scale, Value ok, ArrayRef<Value> decays) {
    if (!gradient)
      return; // nothing moves it: no moments, and its average stays its copy
    const OptimizerRecipe &o = recipe.optimizer;
    std::string name = parameter.getSymName().str();
    double decay = o.weightDecay;
    for (const ParameterGroup &group : o.groups)
      if (matchesPattern(group.match, name)) {
        if (group.weightDecay >= 0)
          decay = group.weightDecay;
        if (group.lrScale != 1)
          lr = e.mul(lr, e.c(group.lrScale));
        break;
      }
    RankedTensorType type = typeOf(parameter);
    Value m = e.read(trained().name(), name, "m", type),
          v = e.read(trained().name(), name, "v", type);
    Location loc = NameLoc::get(e.builder().getStringAttr(name));
    auto updated = e.builder().create<train::UpdateOp>(
        loc, type, type, type, weight, m, v, gradient, lr, step, scale, ok, APFloat(o.beta1),
        APFloat(o.beta2), APFloat(o.epsilon), APFloat(decay));
    e.commit(trained().name(), name, "weight", updated.getNewWeight());
    e.commit(trained().name(), name, "m", updated.getNewM());
    e.commit(trained().name(), name, "v", updated.getNewV());
    for (auto [k, d] : llvm::enumerate(decays)) {
      std::string role = "ema" + std::to_string(k);
      Value old = e.read(trained().name(), name, role, type);
      Value mixed = e.add(e.mul(old, d), e.mul(updated.getNewWeight(), e.sub(e.c(1), d)));
      e.commit(trained().name(), name, role, e.builder().create<nn::SelectOp>(loc, ok, mixed, old));
    }
  }

  Status buildEval(const EntryRecipe &entry) {
    EntryBuilder e(*composed.program, "eval", nextUses(), recipe.seed);
    train::GraphOp graph = graphOf(trained(), entry.batch);
    // The draws of an evaluation are counted by a plan scalar: the same ones
    // each time unless asked otherwise.
    Value pass = e.scalar("eval_pass", e.builder().getI64Type(), 0);
    auto inputs = inputsOf(trained(), graph);
    DIFFRUN_ASSIGN(LossResult result,
                   buildLoss(e, recipe, inputs, NoiseSource::kDraw, pass, e.integer(0),
                             runner(e, trained(), graph, entry.weights)));
    e.output("loss", result.loss);
    e.finish();
    return {};
  }

  /// A model alone: denoise, or an entry of the recipe's own name.
  void buildModelEntry(const std::string &name, const EntryRecipe &entry) {
    EntryBuilder e(*composed.program, name, nextUses(), recipe.seed);
    Model &model = named(entry.model);
    train::GraphOp graph = graphOf(model, entry.batch);
    SmallVector<Value> operands;
    for (const GraphInput &input : inputsOf(model, graph))
      operands.push_back(e.input(input.role, input.type, input.name));
    // The first output is out, further ones out1, out2, ...
    for (auto [i, output] : llvm::enumerate(runner(e, model, graph, entry.weights)(operands)))
      e.output(i ? "out" + std::to_string(i) : "out", output);
    e.finish();
  }

  MLIRContext &context;
  const Recipe &recipe;
  Composed composed;
  SmallVector<Model, 1> models;
  std::set<std::string> trainable, unreached;
  int64_t entryCount = 0;
};

} // namespace

Result<Composed> compose(MLIRContext &context, ArrayRef<ModelFile> files, const Recipe &recipe) {
  return Composer(context, files, recipe).run();
}

} // namespace diffc
