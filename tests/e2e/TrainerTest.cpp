// The training loop on small data sets: short batches, short windows, tiny sets.
// Whatever the order of the samples, every one of them weighs the same.
#include "runtime/train/Trainer.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/StateFiles.h"
#include "tests/e2e/CompiledProgram.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numeric>

namespace diffc::test {
namespace {

/// y = w x with w = 0 on pictures of one pixel, trained towards the target x: a
/// sample's loss is (w x - x)^2, its gradient -2 x^2, so the norm that a step
/// reports is twice the mean square of the samples that it saw.
class TrainerTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = ::testing::TempDir() + "/trainer_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }

  /// Pixels as an IDX data set; their values as the loader gives them.
  std::vector<double> writeData(const std::vector<uint8_t> &pixels) {
    auto big = [](std::ofstream &stream, uint32_t x) {
      for (int shift = 24; shift >= 0; shift -= 8)
        stream.put(static_cast<char>(x >> shift));
    };
    std::ofstream images(folder + "/train-images-idx3-ubyte", std::ios::binary);
    for (uint32_t x : {0x803u, uint32_t(pixels.size()), 1u, 1u})
      big(images, x);
    images.write(reinterpret_cast<const char *>(pixels.data()), long(pixels.size()));
    std::ofstream labels(folder + "/train-labels-idx1-ubyte", std::ios::binary);
    for (uint32_t x : {0x801u, uint32_t(pixels.size())})
      big(labels, x);
    for (size_t i = 0; i < pixels.size(); ++i)
      labels.put(0);
    std::vector<double> values;
    for (uint8_t pixel : pixels)
      values.push_back(static_cast<float>(pixel) / 127.5f - 1.0f);
    return values;
  }

  /// The same pictures as the data set's test pictures.
  void copyTestData() {
    for (const char *part : {"images-idx3-ubyte", "labels-idx1-ubyte"})
      std::filesystem::copy_file(folder + "/train-" + part, folder + "/t10k-" + part);
  }

  static OnnxBuilder product() {
    OnnxBuilder model(17);
    model.input("x", {"N", "1", "1", "1"});
    model.floats("w", {1}, {0});
    model.node("Mul", {"x", "w"});
    return model;
  }

  static std::unique_ptr<diffrun::Program> compiled(const OnnxBuilder &model,
                                                    const std::string &recipe) {
    return build("trainer", model.save(), recipe + "\nthreads: 1\n");
  }
  static constexpr const char *kRegression =
      "\ninputs: {x: clean}\nobjective: {kind: regression}\n";

  diffrun::TrainOptions optionsFor(int64_t steps) const {
    diffrun::TrainOptions training;
    training.run = folder + "/run";
    training.data = folder;
    training.steps = steps;
    training.evalEvery = evalEvery;
    training.quiet = true;
    return training;
  }

  diffrun::Status train(const std::string &recipe, int64_t steps, bool dropLast = false) {
    auto program = compiled(product(), recipe + kRegression + "optimizer: {lr: 0}");
    if (!program)
      return diffrun::Status::internal("no program");
    diffrun::TrainOptions training = optionsFor(steps);
    training.dropLast = dropLast;
    return diffrun::train(*program, training);
  }

  /// A number of each line of the run's metrics.
  std::vector<double> series(const char *key) {
    std::vector<double> values;
    std::ifstream stream(folder + "/run/metrics.jsonl");
    for (std::string line; std::getline(stream, line);)
      values.push_back(nlohmann::json::parse(line)[key].get<double>());
    return values;
  }
  std::vector<double> norms() { return series("norm"); }
  static double squares(const std::vector<double> &x) {
    return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  }

  std::string folder;
  int64_t evalEvery = 0;
};

const std::vector<uint8_t> kSix = {140, 160, 180, 200, 220, 240};

TEST_F(TrainerTest, AShortLastWindowDividesByItsOwnSamples) {
  std::vector<double> x = writeData(kSix);
  auto status = train("batch: 1\naccumulate: 4", 2);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<double> n = norms(); // of four samples and of two
  ASSERT_EQ(n.size(), 2u);
  EXPECT_NEAR(4 * n[0] + 2 * n[1], 2 * squares(x), 1e-5);
  // Divided by the configured count the second would be half as large: the least
  // mean of two samples is above half of the largest.
  EXPECT_GT(n[1], 2 * (x[0] * x[0] + x[1] * x[1]) / 2 - 1e-6);
}

TEST_F(TrainerTest, AShortLastBatchWeighsBySample) {
  std::vector<double> x = writeData(kSix);
  auto status = train("batch: 4\naccumulate: 2", 2);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<double> n = norms(); // each window is an epoch: four samples and two
  ASSERT_EQ(n.size(), 2u);
  EXPECT_NEAR(n[0], 2 * squares(x) / 6, 1e-6);
  EXPECT_NEAR(n[1], 2 * squares(x) / 6, 1e-6);
}

TEST_F(TrainerTest, EvaluatesEverySampleOnce) {
  std::vector<double> x = writeData({130, 150, 170, 190, 210, 230, 250});
  copyTestData();
  evalEvery = 2;
  auto status = train("batch: 2\nentries: {eval: {batch: 3}}", 5);
  ASSERT_TRUE(status.ok()) << status.message();
  std::ifstream stream(folder + "/run/metrics.jsonl");
  int step = 0, evaluations = 0;
  for (std::string line; std::getline(stream, line);) {
    auto metrics = nlohmann::json::parse(line);
    bool due = ++step % 2 == 0 || step == 5;
    ASSERT_EQ(metrics.contains("eval_loss"), due) << line;
    if (due) { // the mean of x^2 over all seven, with w = 0
      EXPECT_NEAR(metrics["eval_loss"].get<double>(), squares(x) / 7, 1e-6);
      ++evaluations;
    }
  }
  EXPECT_EQ(evaluations, 3);
}

TEST_F(TrainerTest, FewerSamplesThanABatch) {
  std::vector<double> x = writeData({150, 200, 250});
  auto status = train("batch: 8", 2);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<double> n = norms(); // one batch of three an epoch
  EXPECT_NEAR(n.at(0), 2 * squares(x) / 3, 1e-6);
  EXPECT_NEAR(n.at(1), 2 * squares(x) / 3, 1e-6);
  std::filesystem::remove_all(folder + "/run");
  status = train("batch: 8", 2, /*dropLast=*/true);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("0 batches: 3 samples"), std::string::npos) << status.message();
  EXPECT_FALSE(std::filesystem::exists(folder + "/run")) << "nothing is begun";
}

// A checkpoint evaluates to what its run said, seed and averages included.
TEST_F(TrainerTest, ACheckpointEvaluatesAsItsRunDid) {
  writeData({130, 150, 170, 190, 210, 230, 250});
  copyTestData();
  auto fresh = [&] {
    return compiled(product(), "batch: 2\ninputs: {x: noisy}\noptimizer: {lr: 0.1}\n"
                               "ema: {decays: [0.5]}\nentries: {eval: {batch: 3, weights: ema0}}");
  };
  auto first = fresh();
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->setScalar("seed", 9).ok());
  evalEvery = 4;
  auto status = diffrun::train(*first, optionsFor(4));
  ASSERT_TRUE(status.ok()) << status.message();
  std::string line, last;
  for (std::ifstream stream(folder + "/run/metrics.jsonl"); std::getline(stream, line);)
    last = line;
  auto reported = nlohmann::json::parse(last)["eval_loss"].get<double>();

  auto checkpoint = diffrun::CheckpointStore(folder + "/run").newest();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  auto evaluated = [&](const std::string &weights) {
    auto program = fresh();
    auto restored = diffrun::restoreFor(*program, "eval", *checkpoint, weights);
    EXPECT_TRUE(restored.ok()) << restored.message();
    auto dataset = diffrun::openEvaluationData(program->plan(), folder);
    EXPECT_TRUE(dataset.ok());
    auto evaluation = diffrun::Evaluation::create(*program, **dataset, 0);
    EXPECT_TRUE(evaluation.ok());
    return *(*evaluation)->run();
  };
  EXPECT_NEAR(evaluated(""), reported, 1e-6 * reported);
  EXPECT_EQ(evaluated("ema"), evaluated(""));
  EXPECT_GT(std::fabs(evaluated("weight") - reported), 1e-3 * reported);
  EXPECT_FALSE(diffrun::restoreFor(*first, "eval", *checkpoint, "ema7").ok());
  EXPECT_FALSE(diffrun::restoreFor(*first, "eval", *checkpoint, "m").ok());
}

// A graph that computes its own loss cannot leave out the filling of a short batch.
TEST_F(TrainerTest, AModelsOwnLossTakesWholeBatchesOnly) {
  writeData(kSix);
  OnnxBuilder model(17);
  model.input("x", {"N", "1", "1", "1"});
  model.floats("w", {1}, {0});
  model.node("Mul", {"x", "w"}, {"p"});
  OnnxBuilder::attribute(model.node("ReduceMean", {"p"}), "keepdims", int64_t{0});
  auto run = [&](bool dropLast, int64_t every) {
    auto program = compiled(model, "batch: 4\ninputs: {x: clean}\n"
                                   "objective: {kind: loss_output}\nentries: {eval: {batch: 4}}");
    evalEvery = every;
    diffrun::TrainOptions training = optionsFor(3);
    training.run += std::to_string(dropLast) + std::to_string(every);
    training.dropLast = dropLast;
    return program ? diffrun::train(*program, training) : diffrun::Status::internal("no program");
  };
  auto status = run(false, 0);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("6 samples are no whole batches of 4"), std::string::npos)
      << status.message();
  EXPECT_NE(status.help().find("--drop-last"), std::string::npos) << status.help();
  status = run(true, 0);
  EXPECT_TRUE(status.ok()) << status.message();
  copyTestData();
  status = run(true, 1); // nor can an evaluation
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("entry eval"), std::string::npos) << status.message();
}

TEST_F(TrainerTest, TheLearningRateCountsOptimizerSteps) {
  writeData(kSix);
  auto rates = [&](const std::string &recipe) {
    std::filesystem::remove_all(folder + "/run");
    auto program = compiled(
        product(), recipe + kRegression +
                       "optimizer: {lr: 1.0e-3, schedule: {kind: cosine, warmup: 10, steps: 100}}");
    EXPECT_TRUE(program && diffrun::train(*program, optionsFor(101)).ok());
    return series("lr");
  };
  std::vector<double> plain = rates("batch: 1"), accumulated = rates("batch: 1\naccumulate: 4");
  EXPECT_EQ(plain, accumulated);
  ASSERT_EQ(plain.size(), 101u);
  EXPECT_NEAR(plain[0], 1e-4, 1e-9);  // the first of ten warm-up steps
  EXPECT_NEAR(plain[55], 5e-4, 1e-8); // 55 steps are done: half-way down
  EXPECT_NEAR(plain[100], 0, 1e-9);   // 100 are done
}

} // namespace
} // namespace diffc::test
