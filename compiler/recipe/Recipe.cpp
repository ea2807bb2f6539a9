#include "compiler/recipe/Recipe.h"

#include "compiler/recipe/YamlReader.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

constexpr double kAny = 1e300;
constexpr int64_t kMany = int64_t{1} << 40;

Status readSchedule(YamlReader &in, NoiseScheduleRecipe &schedule) {
  in.get("kind", schedule.kind, {"linear", "scaled_linear", "cosine", "flow"});
  in.get("steps", schedule.steps, 1, 1000000);
  in.get("beta_start", schedule.betaStart, 1e-12, 0.999);
  in.get("beta_end", schedule.betaEnd, 1e-12, 0.999);
  if (schedule.kind == "cosine" || schedule.kind == "flow")
    for (const char *key : {"beta_start", "beta_end"})
      in.refuse(key, "means nothing for schedule kind " + schedule.kind,
                "betas are of linear and scaled_linear");
  return {};
}

Status readObjective(YamlReader &in, ObjectiveRecipe &objective) {
  in.get("kind", objective.kind, {"diffusion", "regression", "loss_output"});
  in.get("predict", objective.predict, {"eps", "v", "x0", "flow"});
  in.getMap("schedule", [&](YamlReader &inner) { return readSchedule(inner, objective.schedule); });
  in.get("timesteps", objective.timesteps, {"uniform", "logit_normal"});
  in.get("loss", objective.loss, {"mse", "huber"});
  in.get("weighting", objective.weighting, {"none", "min_snr"});
  in.get("gamma", objective.gamma, 1e-9, kAny);
  in.get("label_dropout", objective.labelDropout, 0, 1);
  in.get("null_label", objective.nullLabel, 0, kMany);
  // What would do nothing is refused: who wrote it counts on it.
  std::vector<const char *> idle;
  if (objective.kind != "diffusion")
    idle = {"predict", "schedule",      "timesteps", "weighting",
            "gamma",   "label_dropout", "null_label"};
  if (objective.kind == "loss_output")
    idle.push_back("loss");
  for (const char *key : idle)
    in.refuse(key, "means nothing for objective.kind " + objective.kind, "leave it out");
  if (objective.weighting == "none")
    in.refuse("gamma", "is of objective.weighting min_snr", "weighting: min_snr");
  return {};
}

Status readOptimizer(YamlReader &in, OptimizerRecipe &optimizer) {
  in.get("kind", optimizer.kind, {"adamw"});
  in.get("lr", optimizer.lr, 0, kAny);
  std::vector<double> betas{optimizer.beta1, optimizer.beta2};
  in.get("betas", betas, 0, 0.99999999);
  if (betas.size() != 2)
    return Status::invalid(in.path() + ".betas must hold two numbers");
  optimizer.beta1 = betas[0], optimizer.beta2 = betas[1];
  in.get("eps", optimizer.epsilon, 0, kAny);
  in.get("weight_decay", optimizer.weightDecay, 0, kAny);
  in.get("clip", optimizer.clip, 0, kAny);
  in.getMap("schedule", [&](YamlReader &inner) {
    inner.get("kind", optimizer.schedule, {"constant", "cosine", "linear"});
    inner.get("warmup", optimizer.warmup, 0, kMany);
    inner.get("steps", optimizer.steps, 1, kMany);
    return Status();
  });
  in.getList("groups", [&](YamlReader &inner) {
    ParameterGroup group;
    inner.get("match", group.match);
    inner.get("lr_scale", group.lrScale, 0, kAny);
    inner.get("weight_decay", group.weightDecay, 0, kAny);
    if (group.match.empty())
      return Status::invalid(inner.path() + ": a group needs match, a name pattern");
    optimizer.groups.push_back(group);
    return Status();
  });
  return {};
}

const std::vector<std::string> kRoles = {"clean", "noise", "noisy",  "timestep",
                                         "label", "text",  "target", "sample_weight"};

bool isRole(const std::string &name) {
  return std::find(kRoles.begin(), kRoles.end(), name) != kRoles.end();
}

/// A role each; `data` is the input's own name.
Status readInputs(YamlReader &in, std::map<std::string, std::string> &inputs) {
  in.forEach([&](const std::string &name, YAML::Node value) {
    std::string role = value.as<std::string>("");
    if (role != "data" && !isRole(role))
      return in.fail(value, in.path() + "." + name + ": unknown role \"" + role + "\"",
                     "one of: data, " + fmt::format("{}", fmt::join(kRoles, ", ")));
    if (role == "data" && isRole(name))
      return in.fail(value,
                     in.path() + "." + name + ": data go by the input's own name, and " + name +
                         " is a role",
                     "give it a role");
    inputs[name] = role == "data" ? name : role;
    return Status();
  });
  return {};
}

bool isPlainName(const std::string &name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
}

std::vector<std::string> modelNames(const Recipe &recipe) {
  std::vector<std::string> names;
  for (const ModelRecipe &model : recipe.models)
    names.push_back(model.name);
  return names;
}

/// `model:` with weights and inputs at the top, or `models:` with a map each.
Status readModels(YamlReader &in, Recipe &recipe) {
  ModelRecipe only;
  in.get("model", only.onnx);
  in.get("weights", only.weights);
  in.get("parameters", only.parameters);
  in.getMap("inputs", [&](YamlReader &inner) { return readInputs(inner, only.inputs); });
  in.getMap("models", [&](YamlReader &inner) {
    return inner.forEachMap([&](const std::string &name, YamlReader &entry) {
      ModelRecipe model;
      model.name = name;
      entry.get("onnx", model.onnx);
      entry.get("weights", model.weights);
      entry.get("parameters", model.parameters);
      entry.getMap("inputs", [&](YamlReader &roles) { return readInputs(roles, model.inputs); });
      if (model.onnx.empty())
        return Status::invalid(entry.path() + " needs onnx, the model's file");
      if (!isPlainName(name)) // it becomes part of tensors' and files' names
        return Status::invalid(entry.path() + ": a model's name has letters, digits, _ and - only");
      recipe.models.push_back(model);
      return Status();
    });
  });
  std::string train;
  in.get("train", train);
  if (recipe.models.empty()) {
    if (!train.empty())
      return Status::invalid(recipe.path + ": train names one of models:, and there are none");
    recipe.models.push_back(only);
    return {};
  }
  if (!only.onnx.empty() || only.weights != "model" || !only.parameters.empty() ||
      !only.inputs.empty())
    return Status::invalid(recipe.path + ": model, weights, parameters and inputs at the top are "
                                         "of a recipe with one model",
                           "give them within models:");
  std::vector<std::string> names = modelNames(recipe);
  if (train.empty() && names.size() == 1)
    train = names.front();
  auto found = std::find(names.begin(), names.end(), train);
  if (found == names.end())
    return Status::invalid(recipe.path + (train.empty()
                                              ? ": several models need train: which one "
                                                "the objective trains"
                                              : ": train: there is no model \"" + train + "\""),
                           "one of: " + fmt::format("{}", fmt::join(names, ", ")));
  recipe.trainedIndex = static_cast<size_t>(found - names.begin());
  return {};
}

/// eval and denoise are of the trained model; an entry of any other name runs
/// the model that it names.
Status readEntries(YamlReader &in, Recipe &recipe) {
  return in.forEachMap([&](const std::string &name, YamlReader &entry) {
    static const std::vector<std::string> ours = {"init", "step", "step_fed", "accumulate",
                                                  "apply"};
    EntryRecipe made;
    made.batch = recipe.batch;
    bool known = name == "eval" || name == "denoise";
    if (known)
      made.model = recipe.trained().name;
    else
      entry.get("model", made.model, modelNames(recipe));
    entry.get("batch", made.batch, 1, kMany);
    std::vector<std::string> allowed{"weight"};
    for (size_t i = 0; i < recipe.emaDecays.size() && made.model == recipe.trained().name; ++i)
      allowed.push_back("ema" + std::to_string(i));
    entry.get("weights", made.weights, allowed);
    DIFFRUN_RETURN_IF_ERROR(entry.finish());
    if (std::find(ours.begin(), ours.end(), name) != ours.end())
      return Status::invalid(entry.path() + ": this name is taken by an entry of every plan");
    if (made.model.empty())
      return Status::invalid(entry.path() + ": names no model",
                             "known entries are eval and denoise; another one runs a model: "
                             "{model: NAME, batch: N}");
    recipe.entries[name] = made;
    return Status();
  });
}

Status check(const Recipe &recipe) {
  const ObjectiveRecipe &o = recipe.objective;
  auto wrong = [&](const std::string &what, const std::string &help) {
    return Status::invalid(recipe.path + ": " + what, help);
  };
  if (o.labelDropout > 0 && o.nullLabel < 0)
    return wrong("objective.label_dropout needs objective.null_label",
                 "give the label that stands for \"no class\"");
  if ((o.predict == "flow") != (o.schedule.kind == "flow") && o.kind == "diffusion")
    return wrong("objective.predict flow and schedule kind flow go together",
                 "set both or neither");
  if (o.weighting == "min_snr" && o.predict == "flow")
    return wrong("objective.weighting min_snr is not defined for predict flow", "use none");
  if (o.timesteps == "logit_normal" && o.schedule.kind != "flow")
    return wrong("objective.timesteps logit_normal is implemented for schedule kind flow only",
                 "use uniform");
  if (recipe.optimizer.schedule != "constant" && recipe.optimizer.steps == 0)
    return wrong("optimizer.schedule." + recipe.optimizer.schedule + " needs steps",
                 "give the schedule's length in optimizer steps");
  return {};
}

} // namespace

std::string Recipe::pathOf(const std::string &name) const {
  return (std::filesystem::path(path).parent_path() / name).string();
}

bool matchesPattern(const std::string &pattern, const std::string &name) {
  size_t p = 0, n = 0, star = std::string::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, mark = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string::npos) {
      p = star + 1, n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

Result<Recipe> parseRecipe(const std::string &text, const std::string &path) {
  Recipe recipe;
  recipe.path = path;
  recipe.text = text;
  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception &error) {
    return Status::invalid(fmt::format("{}:{}: {}", path, error.mark.line + 1, error.msg));
  }
  if (root.IsNull())
    root = YAML::Node(YAML::NodeType::Map);
  YamlReader in(root, path, "");
  DIFFRUN_RETURN_IF_ERROR(readModels(in, recipe));
  in.get("batch", recipe.batch, 1, kMany);
  in.get("accumulate", recipe.accumulate, 1, kMany);
  in.getMap("objective", [&](YamlReader &inner) { return readObjective(inner, recipe.objective); });
  in.getMap("optimizer", [&](YamlReader &inner) { return readOptimizer(inner, recipe.optimizer); });
  in.getMap("ema", [&](YamlReader &inner) {
    inner.get("decays", recipe.emaDecays, 0, 1);
    inner.get("warmup", recipe.emaWarmup);
    if (recipe.emaDecays.empty())
      inner.refuse("warmup", "is of averages, and there are none", "ema: {decays: [0.999]}");
    return Status();
  });
  in.getMap("entries", [&](YamlReader &inner) { return readEntries(inner, recipe); });
  in.only("precision", {"f32"});
  in.get("threads", recipe.threads, 1, 1024);
  in.get("trainable", recipe.trainable);
  in.getMap("memory", [&](YamlReader &inner) {
    inner.only("budget", {"none"});
    inner.get("recompute", recipe.recompute, {"auto", "none"});
    inner.only("offload", {"none"});
    return Status();
  });
  in.getMap("parallel", [&](YamlReader &inner) {
    inner.only("ranks", {"1"});
    inner.only("zero", {"0"});
    return Status();
  });
  in.get("seed", recipe.seed, 0, std::numeric_limits<int64_t>::max());
  in.getMap("dimensions", [&](YamlReader &inner) {
    inner.forEach([&](const std::string &name, YAML::Node value) {
      int64_t extent = value.as<int64_t>(0);
      if (extent < 1)
        return inner.fail(value, "dimensions." + name + " must be a whole number from 1");
      recipe.dimensions[name] = extent;
      return Status();
    });
    return Status();
  });
  DIFFRUN_RETURN_IF_ERROR(in.finish());
  DIFFRUN_RETURN_IF_ERROR(check(recipe));
  return recipe;
}

Result<Recipe> readRecipe(const std::string &path) {
  std::ifstream stream(path);
  if (!stream)
    return Status::invalid(path + ": cannot be opened", "check the path and its permissions");
  std::stringstream text;
  text << stream.rdbuf();
  return parseRecipe(text.str(), path);
}

} // namespace diffc
