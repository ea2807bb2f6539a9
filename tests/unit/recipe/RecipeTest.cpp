// Recipes: what is read, and the one clear error for what is not.
#include "compiler/recipe/Recipe.h"

#include <gtest/gtest.h>

namespace diffc {
namespace {

TEST(Recipe, ReadsEveryKey) {
  auto recipe = parseRecipe(R"(
model: m.onnx
weights: init
inputs: {sample: noisy, t: timestep}
batch: 32
objective: {predict: v, schedule: {kind: cosine, steps: 500}, loss: huber, weighting: min_snr,
            gamma: 3, label_dropout: 0.1, null_label: 10}
optimizer: {kind: adamw, lr: 1.0e-3, betas: [0.8, 0.99], eps: 1e-6, weight_decay: 0.1, clip: 2,
            schedule: {kind: linear, warmup: 5, steps: 50}, groups: [{match: "*.bias", weight_decay: 0}]}
ema: {decays: [0.9, 0.999], warmup: false}
entries: {eval: {batch: 50}, denoise: {batch: 80, weights: ema1}}
precision: f32
threads: 2
trainable: ["block*"]
seed: 7
)",
                            "r.yaml");
  ASSERT_TRUE(recipe.ok()) << recipe.status().message();
  EXPECT_EQ(recipe->batch, 32);
  EXPECT_EQ(recipe->objective.predict, "v");
  EXPECT_EQ(recipe->objective.schedule.steps, 500);
  EXPECT_EQ(recipe->objective.nullLabel, 10);
  EXPECT_EQ(recipe->optimizer.beta1, 0.8);
  EXPECT_EQ(recipe->optimizer.groups.at(0).weightDecay, 0);
  EXPECT_EQ(recipe->emaDecays, (std::vector<double>{0.9, 0.999}));
  EXPECT_FALSE(recipe->emaWarmup);
  EXPECT_EQ(recipe->entries.at("denoise").weights, "ema1");
  EXPECT_EQ(recipe->trained().inputs.at("t"), "timestep");
}

TEST(Recipe, SeveralModels) {
  auto recipe = parseRecipe(R"(
models:
  vae: {onnx: v.onnx, weights: v.safetensors}
  unet: {onnx: u.onnx, inputs: {sample: noisy}}
train: unet
entries: {encode: {model: vae, batch: 8}, denoise: {batch: 2}}
)",
                            "dir/r.yaml");
  ASSERT_TRUE(recipe.ok()) << recipe.status().message();
  EXPECT_EQ(recipe->models.size(), 2u);
  EXPECT_EQ(recipe->trained().name, "unet");
  EXPECT_EQ(recipe->entries.at("encode").model, "vae");
  EXPECT_EQ(recipe->entries.at("denoise").model, "unet");
  EXPECT_EQ(recipe->pathOf(recipe->models[0].weights), "dir/v.safetensors");
}

TEST(Recipe, ErrorsNameKeyLineAndWayOut) {
  struct Case {
    const char *text, *message, *help;
  };
  for (const Case &c : {
           Case{"batch: -1", "r.yaml:1: batch must be a whole number from 1", ""},
           Case{"\noptimizer: {lrr: 1}", "r.yaml:2: unknown key optimizer.lrr", "did you mean lr?"},
           Case{"objective: {predict: score}", "objective.predict: score is not supported",
                "eps, v, x0, flow"},
           Case{"precision: bf16", "precision: this value is not implemented", "f32"},
           Case{"memory: {budget: 8GiB}", "memory.budget: this value is not implemented", ""},
           Case{"inputs: {x: foo}", "unknown role \"foo\"", "noisy"},
           Case{"inputs: {noise: data}", "inputs.noise: data go by the input's own name", "role"},
           Case{"batch: [1", "r.yaml:", ""},
           Case{"- a", "must be a map", ""},
           Case{"objective: {label_dropout: 0.1}", "needs objective.null_label", ""},
           Case{"objective: {predict: flow}", "go together", ""},
           Case{"objective: {predict: eps, schedule: {kind: flow}}", "go together",
                "both or neither"},
           Case{"objective: {predict: flow, schedule: {kind: flow}, weighting: min_snr}",
                "not defined for predict flow", "none"},
           Case{"objective: {timesteps: logit_normal}", "schedule kind flow only", "uniform"},
           Case{"objective: {kind: regression, predict: v}",
                "r.yaml:1: objective.predict means nothing for objective.kind regression",
                "leave it out"},
           Case{"objective: {kind: regression, schedule: {kind: cosine}}", "objective.schedule",
                ""},
           Case{"objective: {kind: regression, weighting: min_snr}", "objective.weighting", ""},
           Case{"objective: {kind: loss_output, loss: huber}", "objective.loss means nothing", ""},
           Case{"objective: {gamma: 3}", "objective.gamma is of objective.weighting", "min_snr"},
           Case{"objective: {schedule: {kind: cosine, beta_end: 0.1}}", "beta_end means nothing",
                "linear"},
           Case{"ema: {warmup: true}", "ema.warmup is of averages", "decays"},
           Case{"optimizer: {schedule: {kind: linear}}", "linear needs steps", "length"},
           Case{"models: {a/b: {onnx: a.onnx}}", "letters, digits", ""},
           Case{"models: {a: {onnx: a.onnx}, b: {onnx: b.onnx}}", "need train", "a, b"},
           Case{"models: {a: {onnx: a.onnx}}\ntrain: c", "no model \"c\"", "a"},
           Case{"models: {a: {onyx: a.onnx}}", "models.a", ""},
           Case{"model: m.onnx\nmodels: {a: {onnx: a.onnx}}", "at the top", "within models"},
           Case{"entries: {evla: {batch: 5}}", "entries.evla: names no model", "eval and denoise"},
           Case{"entries: {step: {batch: 5}}", "entries.step: this name is taken", ""},
           Case{"entries: {encode: {model: vae}}", "vae is not supported", "model"},
           Case{"entries: {denoise: {weights: ema0}}", "ema0 is not supported", "weight"},
       }) {
    auto recipe = parseRecipe(c.text, "r.yaml");
    ASSERT_FALSE(recipe.ok()) << c.text;
    EXPECT_NE(recipe.status().message().find(c.message), std::string::npos)
        << recipe.status().message();
    EXPECT_NE(recipe.status().help().find(c.help), std::string::npos) << recipe.status().help();
  }
}

TEST(Recipe, Patterns) {
  EXPECT_TRUE(matchesPattern("*", "a.b"));
  EXPECT_TRUE(matchesPattern("*.bias", "blocks.0.bias"));
  EXPECT_FALSE(matchesPattern("*.bias", "blocks.0.bias.x"));
  EXPECT_TRUE(matchesPattern("a*b*c", "aXXbYbc"));
  EXPECT_FALSE(matchesPattern("a", "ab"));
}

} // namespace
} // namespace diffc
