// Whole models against logits and greedy continuations of another engine (make_golden.py), on every
// kernel path.
//
// Bounds, for a golden logit g:
// * Float weights, and the reference path on any weights: |ours - g| <= 1e-3 |g|. Both sides then
//   compute in float32 on the same values and differ in the order of sums only.
// * Native path on quantised weights: activations are rounded to int8 in groups of 32, with a step
//   of max|x| / 127. For normal activations max|x| of 32 is 2.1 sigma on average, so that a product
//   gets a relative error of 2.1 / 127 / sqrt(12) = 0.5 percent; SwiGLU's long-tailed products,
//   softmax over sharp scores and the number of layers make 3.5 to 11 percent of the logits'
//   standard deviation of it in these random models. How much is not derived but measured: the
//   reference engine computed the same logits with its own inputs rounded in that way, and the
//   golden file holds the root mean square of the change ("int8_rms"). Ours must stay below
//   kRmsFactor times that: the two roundings' errors are independent samples of one distribution,
//   and the root mean square of 80 logits at 4 positions, about 30 independent ones, spreads by 13
//   percent; over the cases the ratio was 0.79 to 1.23, 1.02 on average. Each logit must stay
//   within kWorstFactor times int8_rms (one in two million of a normal distribution, times
//   kRmsFactor).
// Greedy tokens: the golden continuation is fed token by token; at each step our best token must be
// the golden one, unless the golden lead over the runner-up is at most twice the bound of a logit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model_support/test_model.h"
#include "test_paths.h"

namespace {

using model_support::Case;
using model_support::Path;

constexpr double kFloatBound = 1e-3;
constexpr double kRmsFactor = 1.6;
constexpr double kWorstFactor = 5.0 * kRmsFactor;

// How far one logit may be off.
struct Bound {
  double relative = 0;  // of the golden logit
  double rms = 0;       // over all compared logits; 0 = not asked
  double worst = 0;     // of each

  [[nodiscard]] double Of(double golden) const { return relative * std::abs(golden) + worst; }
};

Bound BoundFor(const Case& model, const Path& path, const Json& golden) {
  if (!model.IsQuantised() || path.options.path == ops::KernelPath::kReference) {
    return {.relative = kFloatBound};
  }
  const auto int8_rms = golden["int8_rms"].get<double>();
  return {.rms = kRmsFactor * int8_rms, .worst = kWorstFactor * int8_rms};
}

class Comparison {
 public:
  explicit Comparison(Bound bound) : bound_(bound) {}

  void Compare(const Json& golden, const std::vector<float>& logits) {
    for (const Json& entry : golden["top"]) {
      const auto id = entry[0].get<std::size_t>();
      const auto expected = entry[1].get<double>();
      ASSERT_LT(id, logits.size());
      const double off = std::abs(logits[id] - expected);
      EXPECT_LE(off, bound_.Of(expected)) << "token " << id << " at position " << golden["position"]
                                          << ": " << logits[id] << " instead of " << expected;
      squares_ += off * off;
      ++count_;
    }
  }

  void CheckRms() const {
    const double rms = std::sqrt(squares_ / std::max(1, count_));
    if (bound_.rms > 0) {
      EXPECT_LE(rms, bound_.rms);
    }
  }

 private:
  Bound bound_;
  double squares_ = 0;
  int count_ = 0;
};

// Feeds the prompt so that the logits of its last positions are seen; returns those of the last.
std::vector<float> ComparePrompt(engine::Engine& engine, model_support::Sequence& sequence,
                                 const Json& golden, const Json& reference, const Bound& bound) {
  auto prompt = golden["prompt"].get<std::vector<TokenId>>();
  Comparison comparison(bound);
  std::vector<float> logits;
  for (const Json& position : reference["last"]) {
    const int end = position["position"].get<int>() + 1;
    const std::vector<TokenId> part(prompt.begin() + sequence.length(), prompt.begin() + end);
    logits = model_support::Feed(engine, sequence, part, end);
    comparison.Compare(position, logits);
  }
  comparison.CheckRms();
  return logits;
}

void CompareGreedy(engine::Engine& engine, model_support::Sequence& sequence, const Json& reference,
                   std::vector<float> logits, const Bound& bound) {
  const auto greedy = reference["greedy"].get<std::vector<TokenId>>();
  const auto margins = reference["greedy_margin"].get<std::vector<double>>();
  for (std::size_t step = 0; step < greedy.size(); ++step) {
    ASSERT_FALSE(logits.empty());
    const auto best = static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
    const double golden_logit = logits[static_cast<std::size_t>(greedy[step])];
    if (best != greedy[step]) {
      EXPECT_LE(margins[step], 2 * bound.Of(golden_logit))
          << "step " << step << ": " << best << " instead of " << greedy[step];
    }
    logits = model_support::Feed(engine, sequence, {greedy[step]}, 1);
  }
}

class ModelGolden : public ::testing::TestWithParam<Case> {};

TEST_P(ModelGolden, LogitsAndGreedyTokensEqualTheReferenceEngines) {
  const Case& model = GetParam();
  const Json golden =
      model_support::ReadJsonFile(std::filesystem::path(EMBERBANK_SOURCE_DIR) /
                                  "tests/model_golden/golden" / (model.golden + ".json"));
  // Where both engines were asked, transformers is right: mlx-lm rounds Gemma's embedding factor to
  // bfloat16.
  const Json& reference =
      golden.contains("transformers") ? golden["transformers"] : golden["mlx_lm"];
  for (const Path& path : model_support::AllPaths(/*kv_bits=*/32)) {
    SCOPED_TRACE(path.name);
    const std::unique_ptr<engine::Engine> engine = model_support::MakeEngine(model, path.options);
    ASSERT_NE(engine, nullptr);
    const Bound bound = BoundFor(model, path, golden);
    model_support::Sequence sequence(*engine);
    const std::vector<float> logits = ComparePrompt(*engine, sequence, golden, reference, bound);
    CompareGreedy(*engine, sequence, reference, logits, bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelGolden, ::testing::ValuesIn(model_support::ReadCases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.name;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
