#include "engine/sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "engine/sampler_select.h"

namespace engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TokenId SampleOnce(Sampler& sampler, std::vector<float> logits,
                   std::vector<std::uint32_t> allowed = {}, std::vector<TokenId> forbidden = {}) {
  return sampler.Sample(logits, allowed, forbidden).token;
}

TokenId Greedy(std::vector<float> logits, std::vector<std::uint32_t> allowed = {},
               std::vector<TokenId> forbidden = {}) {
  Sampler sampler({.temperature = 0}, {});
  return SampleOnce(sampler, std::move(logits), std::move(allowed), std::move(forbidden));
}

std::vector<float> RandomLogits(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(n);
  std::generate(logits.begin(), logits.end(), [&] { return normal(random); });
  return logits;
}

// The slow twin: sorts everything and follows the definitions. Probabilities by token id.
std::vector<double> SlowDistribution(const std::vector<float>& logits,
                                     const SamplingParams& params) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<std::size_t>(params.top_k)));
  }
  std::vector<double> p(logits.size(), 0.0);
  const auto normalize = [&] {
    double sum = 0;
    for (const std::size_t i : order) {
      sum += p[i];
    }
    for (const std::size_t i : order) {
      p[i] /= sum;
    }
  };
  for (const std::size_t i : order) {
    p[i] = std::exp(static_cast<double>(logits[i] - logits[order[0]]) / params.temperature);
  }
  normalize();
  double sum = 0;
  std::size_t kept = 0;
  while (kept < order.size() && (kept == 0 || params.top_p >= 1.0 || sum < params.top_p)) {
    sum += p[order[kept++]];
  }
  for (; order.size() > kept; order.pop_back()) {
    p[order.back()] = 0;
  }
  const double bound = params.min_p * p[order[0]];
  while (p[order.back()] < bound) {
    p[order.back()] = 0;
    order.pop_back();
  }
  normalize();
  return p;
}

// Draws often and compares with the slow distribution by chi-square; impossible tokens must never
// come.
void ExpectDistribution(const SamplingParams& params, std::uint32_t seed) {
  const std::vector<float> logits = RandomLogits(12, seed);
  const std::vector<double> expected = SlowDistribution(logits, params);
  Sampler sampler(params, {});
  constexpr int kDraws = 20000;
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(SampleOnce(sampler, logits))];
  }
  double chi_square = 0;
  int degrees = -1;
  double rare = 0;  // expected counts too small for chi-square are pooled
  int rare_count = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double want = expected[i] * kDraws;
    if (expected[i] == 0) {
      ASSERT_EQ(counts[i], 0) << "token " << i << " is filtered out";
    } else if (want < 10) {
      rare += want;
      rare_count += counts[i];
    } else {
      chi_square += (counts[i] - want) * (counts[i] - want) / want;
      ++degrees;
    }
  }
  if (rare > 5) {
    chi_square += (rare_count - rare) * (rare_count - rare) / rare;
    ++degrees;
  }
  // Seeds are fixed, so this is not flaky; mean + 5 standard deviations would be a fault of one in
  // a million.
  EXPECT_LT(chi_square, degrees + 5 * std::sqrt(2.0 * std::max(1, degrees)) + 1);
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOnATie) {
  EXPECT_EQ(Greedy({1, 5, 2}), 1);
  EXPECT_EQ(Greedy({1, 5, 5, 5}), 1);
  EXPECT_EQ(Greedy({-kInf, -kInf, -3}), 2);
}

TEST(Sampler, NanAndInfinityDoNoHarm) {
  EXPECT_EQ(Greedy({kNan, 1, 2}), 2);
  EXPECT_EQ(Greedy({1, kInf, 2}), 1);
  EXPECT_EQ(Greedy({kNan, kNan}), 0);
  EXPECT_EQ(Greedy({-kInf, -kInf, -kInf}, {0b100}), 2);
  for (const double temperature : {1.0, 1e-9, 1e9}) {
    Sampler sampler(
        {.temperature = temperature, .top_k = 2, .seed = 1, .logprobs = true, .top_logprobs = 3},
        {});
    for (std::vector<float> logits : {std::vector<float>{kNan, kNan, kNan},
                                      {kInf, kInf, 0},
                                      {-kInf, -kInf, -kInf},
                                      {kInf, -kInf, kNan}}) {
      const SampledToken sampled = sampler.Sample(logits, {}, {});
      EXPECT_TRUE(sampled.token >= 0 && sampled.token < 3);
      EXPECT_TRUE(std::isfinite(sampled.logprob));
    }
  }
}

TEST(Sampler, TheConstraintComesFirst) {
  EXPECT_EQ(Greedy({9, 5, 7, 6}, {0b1010}), 3);
  std::vector<float> many(40, 0.0F);
  many[39] = 1;
  EXPECT_EQ(Greedy(many, {0b10}), 1) << "ids beyond the bitset are not allowed";
  Sampler biased({.temperature = 0, .logit_bias = {{0, 100.0}}}, {});
  EXPECT_EQ(SampleOnce(biased, {9, 5, 7}, {0b110}), 2);
}

TEST(Sampler, ForbiddenTokensComeOnlyWhenNothingElseMay) {
  EXPECT_EQ(Greedy({9, 5, 7}, {}, {0}), 2);
  EXPECT_EQ(Greedy({9, 5, 7}, {0b001}, {0}), 0);
  EXPECT_EQ(Greedy({9, 5, 7}, {}, {0, -4, 77}), 2) << "ids outside the vocabulary are ignored";
  EXPECT_EQ(Greedy({9, 5, 7}, {0}, {}), 0) << "a constraint that allows nothing must not crash";
}

TEST(Sampler, TopKOfOneIsGreedy) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> logits = RandomLogits(1000, seed);
    Sampler sampler({.temperature = 2.0, .top_k = 1, .seed = seed}, {});
    EXPECT_EQ(SampleOnce(sampler, logits), Greedy(logits));
  }
}

TEST(Sampler, ATinyTopPIsGreedyAndOneIsOff) {
  const std::vector<float> logits = RandomLogits(1000, 7);
  Sampler tiny({.top_p = 1e-6, .seed = 3}, {});
  Sampler full({.top_p = 1.0, .seed = 3}, {});
  Sampler none({.seed = 3}, {});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(SampleOnce(tiny, logits), Greedy(logits));
    EXPECT_EQ(SampleOnce(full, logits), SampleOnce(none, logits));
  }
}

TEST(Sampler, FollowsTheDistributionOfTheSlowTwin) {
  std::uint32_t seed = 1;
  for (const double temperature : {0.3, 1.0, 2.5}) {
    for (const int top_k : {0, 5}) {
      for (const double top_p : {1.0, 0.9, 0.4}) {
        for (const double min_p : {0.0, 0.1}) {
          SCOPED_TRACE(testing::Message()
                       << temperature << " " << top_k << " " << top_p << " " << min_p);
          ExpectDistribution({.temperature = temperature,
                              .top_p = top_p,
                              .top_k = top_k,
                              .min_p = min_p,
                              .seed = seed},
                             seed);
          ++seed;
        }
      }
    }
  }
}

TEST(Sampler, MinPOfOneLeavesTheLikeliestOnly) {
  const std::vector<float> logits = RandomLogits(100, 5);
  Sampler sampler({.min_p = 1.0, .seed = 5}, {});
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(SampleOnce(sampler, logits), Greedy(logits));
  }
}

TEST(Sampler, ASeedGivesTheSameTextAndAnotherSeedAnother) {
  const std::vector<float> logits = RandomLogits(5000, 11);
  const auto text = [&](std::optional<std::uint64_t> seed) {
    Sampler sampler({.temperature = 2.0, .seed = seed}, {});
    std::vector<TokenId> tokens;
    for (int i = 0; i < 20; ++i) {
      tokens.push_back(SampleOnce(sampler, logits));
    }
    return tokens;
  };
  EXPECT_EQ(text(42), text(42));
  EXPECT_NE(text(42), text(43));
  EXPECT_NE(text(std::nullopt), text(std::nullopt));
}

TEST(Sampler, TheRandomStreamIsFixedForAllTime) {
  // Texts with a seed must not change between versions: changing these values is a breaking change.
  EXPECT_EQ(UniformAt(0, 0), 0.6524484863740322);
  EXPECT_EQ(UniformAt(42, 0), 0.34329192209867343);
  EXPECT_EQ(UniformAt(42, 1), 0.9557467261317436);
  EXPECT_EQ(UniformAt(~0ULL, 1000), 0.033884161635479915);
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double u = UniformAt(123, i);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

TEST(Sampler, PenaltiesFollowTheirFormulas) {
  // Presence: once, whatever the count. Frequency: each time.
  Sampler presence({.temperature = 0, .presence_penalty = 1.5}, {});
  EXPECT_EQ(SampleOnce(presence, {5, 4, 0}), 0);
  EXPECT_EQ(SampleOnce(presence, {5, 4, 0}), 1);
  EXPECT_EQ(SampleOnce(presence, {5, 4, 0}), 0) << "3.5 against 2.5";
  Sampler frequency({.temperature = 0, .frequency_penalty = 0.6}, {});
  EXPECT_EQ(SampleOnce(frequency, {5, 4, 0}), 0);
  EXPECT_EQ(SampleOnce(frequency, {5, 4, 0}), 0) << "4.4 against 4";
  EXPECT_EQ(SampleOnce(frequency, {5, 4, 0}), 1) << "3.8 against 4";
  // Repetition: over the prompt too; divides positive logits, multiplies negative ones.
  const std::vector<TokenId> prompt = {0, 0, 3};
  Sampler repetition({.temperature = 0, .repetition_penalty = 2.0}, prompt);
  EXPECT_EQ(SampleOnce(repetition, {5, 3, -9, -9}), 1);
  EXPECT_EQ(SampleOnce(repetition, {5, 3, -9, -9}), 0) << "2.5 against 1.5";
  Sampler negative({.temperature = 0, .repetition_penalty = 2.0}, prompt);
  EXPECT_EQ(SampleOnce(negative, {-3, -5, -9, -9}), 1) << "-6 against -5";
}

TEST(Sampler, LogitBiasShiftsAndIgnoresUnknownIds) {
  Sampler sampler({.temperature = 0, .logit_bias = {{2, 10.0}, {-1, 5.0}, {99, 5.0}}}, {});
  EXPECT_EQ(SampleOnce(sampler, {5, 4, 0}), 2);
}

TEST(Sampler, LogprobsAreOfTheModelsOwnDistribution) {
  const std::vector<float> logits = {1, 3, 2, 3};
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit));
  }
  // Bias, temperature and mask change the choice, not what is reported.
  Sampler sampler(
      {.temperature = 0, .logit_bias = {{0, 50.0}}, .logprobs = true, .top_logprobs = 3}, {});
  std::vector<float> copy = logits;
  const SampledToken sampled = sampler.Sample(copy, {}, {});
  EXPECT_EQ(sampled.token, 0);
  EXPECT_NEAR(sampled.logprob, 1 - std::log(sum), 1e-6);
  ASSERT_EQ(sampled.top_logprobs.size(), 3U);
  EXPECT_EQ(sampled.top_logprobs[0].token, 1) << "the lowest id of a tie first";
  EXPECT_EQ(sampled.top_logprobs[1].token, 3);
  EXPECT_EQ(sampled.top_logprobs[2].token, 2);
  EXPECT_NEAR(sampled.top_logprobs[2].logprob, 2 - std::log(sum), 1e-6);

  Sampler silent({.temperature = 0, .top_logprobs = 3}, {});
  copy = logits;
  EXPECT_TRUE(silent.Sample(copy, {}, {}).top_logprobs.empty());
}

TEST(Sampler, TopKSelectsWhatASortWould) {
  EXPECT_TRUE(rc::check([](std::vector<std::uint8_t> values, std::uint8_t k) {
    std::vector<float> logits(values.begin(), values.end());
    for (float& logit : logits) {
      logit = logit > 250 ? -kInf : std::floor(logit / 16);  // many ties
    }
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > -kInf) {
        all.push_back({.token = static_cast<TokenId>(i), .logit = logits[i]});
      }
    }
    std::sort(all.begin(), all.end(), Likelier);
    all.resize(std::min<std::size_t>(all.size(), k));
    const std::vector<Candidate> best = TopK(logits, k);
    RC_ASSERT(best.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      RC_ASSERT(best[i].token == all[i].token);
    }
  }));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatASortWouldKeep) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    const std::vector<float> logits = RandomLogits(300, seed);
    const double top_p = 0.05 + static_cast<double>(seed % 95) / 100;
    std::vector<Candidate> candidates = TopK(logits, logits.size());
    SetWeights(candidates, candidates[0].logit, 0.5 + seed % 4);
    std::vector<Candidate> sorted = candidates;
    double total = 0;
    for (const Candidate& candidate : sorted) {
      total += candidate.weight;
    }
    double sum = 0;
    std::size_t kept = 0;
    while (sum < top_p * total) {
      sum += sorted[kept++].weight;
    }
    std::reverse(candidates.begin(), candidates.end());
    KeepTopP(candidates, top_p * total);
    RC_ASSERT(candidates.size() >= kept - 1 &&
              candidates.size() <= kept + 1);  // rounding of the sums
    for (std::size_t i = 0; i < std::min(kept, candidates.size()); ++i) {
      RC_ASSERT(candidates[i].token == sorted[i].token);
    }
  }));
}

TEST(Sampler, NoRepetitionPenaltyMakesATokenImpossibleOrAnImpossibleOnePossible) {
  const std::vector<TokenId> prompt = {0, 1, 2, 3};
  for (const double penalty : {1e-310, 1e-50, 1e50, 1e308}) {
    Sampler sampler({.temperature = 0, .repetition_penalty = penalty}, prompt);
    std::vector<float> logits = {0.0F, 2.0F, -1.0F, -std::numeric_limits<float>::infinity()};
    const std::vector<std::uint32_t> allowed = {0b1101};
    EXPECT_EQ(sampler.Sample(logits, allowed, {}).token, 0) << penalty;
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(std::isnan(logits[static_cast<std::size_t>(i)])) << penalty;
    }
    EXPECT_EQ(logits[3], -std::numeric_limits<float>::infinity()) << penalty;
  }
}

// Some spiky, some flat; a few impossible tokens.
std::vector<float> Spread(std::size_t n, std::uint32_t seed) {
  std::vector<float> logits = RandomLogits(n, seed);
  const float spread = std::exp2(static_cast<float>(seed % 9) - 6);
  for (std::size_t i = 0; i < n; ++i) {
    logits[i] = (i + seed) % 11 == 0 ? -std::numeric_limits<float>::infinity() : logits[i] * spread;
  }
  return logits;
}

TEST(Weights, AreTheExponentialsOfTheLogits) {
  std::vector<float> logits = {3.0F,
                               2.0F,
                               -80.0F,
                               -1e30F,
                               -std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::max()};
  const std::vector<float> given = logits;
  for (const double temperature : {1e-300, 0.01, 0.7, 1.0, 2.0, 100.0}) {
    logits = given;
    const Weights weights(logits, 3.0F, temperature);
    double total = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const double exact = std::exp((static_cast<double>(given[i]) - 3.0) / temperature);
      EXPECT_NEAR(logits[i], exact, exact * 2e-5 + 1e-37) << given[i] << " at " << temperature;
      total += exact;
    }
    EXPECT_NEAR(weights.total(), total, total * 1e-6);
    EXPECT_EQ(logits[0], 1.0F);
    EXPECT_EQ(logits[4], 0.0F);
  }
}

TEST(Weights, TopPKeepsWhatASortWouldKeep) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    const std::vector<float> logits = Spread(1 + seed % 3000, seed);
    std::vector<Candidate> sorted = TopK(logits, logits.size());
    RC_PRE(!sorted.empty());
    const double temperature = 0.5 + seed % 4;
    const double top_p = 0.05 + static_cast<double>(seed % 95) / 100;
    SetWeights(sorted, sorted[0].logit, temperature);
    const double wanted = top_p * TotalWeight(sorted);
    double sum = 0;
    std::size_t kept = 0;
    while (kept < sorted.size() && sum < wanted) {
      sum += sorted[kept++].weight;
    }
    std::vector<float> values = logits;
    std::vector<Candidate> nucleus = Weights(values, sorted[0].logit, temperature).TopP(top_p);
    RC_ASSERT(nucleus.size() + 2 >= kept && nucleus.size() <= kept + 2);  // rounding of the sums
    // Two logits next to each other may become one weight in float32: compare logits, not tokens.
    const float least = sorted[std::min(kept + 2, sorted.size()) - 1].logit;
    for (const Candidate& candidate : nucleus) {
      RC_ASSERT(logits[static_cast<std::size_t>(candidate.token)] >=
                least - 1e-4F * std::abs(least));
    }
  }));
}

TEST(Weights, ADrawFallsWhereTheSumOfAllBeforeItSays) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    std::vector<float> values = Spread(1 + seed % 3000, seed);
    const TokenId best = ArgMax(values);
    RC_PRE(values[static_cast<std::size_t>(best)] > -std::numeric_limits<float>::infinity());
    const Weights weights(values, values[static_cast<std::size_t>(best)], 1.0);
    for (const double u : {0.0, UniformAt(seed, 0), UniformAt(seed, 1), 0x1.fffffffffffffp-1}) {
      const auto token = static_cast<std::size_t>(weights.Draw(u));
      RC_ASSERT(values[token] > 0);
      double before = 0;
      for (std::size_t i = 0; i < token; ++i) {
        before += static_cast<double>(values[i]);
      }
      const double target = u * weights.total();
      const double slack = weights.total() * 1e-6;
      RC_ASSERT(before <= target + slack);
      RC_ASSERT(before + static_cast<double>(values[token]) >= target - slack);
    }
  }));
}

}  // namespace
}  // namespace engine
