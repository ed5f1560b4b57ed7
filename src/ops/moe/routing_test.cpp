#include "ops/moe/routing.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace ops {
namespace {

using mlx::core::array;

struct Chosen {
  std::vector<int> experts;
  std::vector<float> weights;
};

Chosen Values(const Routing& routing) {
  array experts = mlx::core::contiguous(routing.experts);
  array weights = mlx::core::contiguous(routing.weights);
  experts.eval();
  weights.eval();
  return {{experts.data<std::int32_t>(), experts.data<std::int32_t>() + experts.size()},
          {weights.data<float>(), weights.data<float>() + weights.size()}};
}

// The definition, in double precision: sorts everything.
Chosen Twin(const RoutingSpec& spec, const float* logits, const std::vector<float>& correction) {
  const auto n = static_cast<std::size_t>(spec.n_experts);
  std::vector<double> scores(n);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    scores[i] = std::exp(double{logits[i]});
    sum += scores[i];
  }
  for (double& score : scores) {
    score = spec.score == RouterScore::kSigmoid ? score / (1 + score) : score / sum;
  }
  std::vector<double> choice = scores;
  for (std::size_t i = 0; i < correction.size(); ++i) {
    choice[i] += correction[i];
  }
  const std::size_t group_size = n / static_cast<std::size_t>(spec.n_groups);
  std::vector<std::pair<double, std::size_t>> groups;
  for (std::size_t g = 0; g < n / group_size; ++g) {
    std::vector<double> group(choice.begin() + static_cast<std::ptrdiff_t>(g * group_size),
                              choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * group_size));
    std::ranges::sort(group, std::ranges::greater());
    groups.emplace_back(group_size > 1 ? group[0] + group[1] : group[0], g);
  }
  std::ranges::sort(groups, std::ranges::greater());
  groups.resize(static_cast<std::size_t>(spec.n_chosen_groups));
  std::vector<int> order;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::ranges::any_of(groups, [&](const auto& g) { return g.second == i / group_size; })) {
      order.push_back(static_cast<int>(i));
    }
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](int i) { return choice[static_cast<std::size_t>(i)]; });
  order.resize(static_cast<std::size_t>(spec.n_chosen));
  double chosen_sum = spec.sum_epsilon;
  for (const int i : order) {
    chosen_sum += scores[static_cast<std::size_t>(i)];
  }
  Chosen chosen{.experts = order, .weights = {}};
  for (const int i : order) {
    const double score = scores[static_cast<std::size_t>(i)];
    chosen.weights.push_back(
        static_cast<float>((spec.normalised ? score / chosen_sum : score) * spec.scale));
  }
  return chosen;
}

std::vector<RoutingSpec> Specs() {
  return {
      {.n_experts = 8, .n_chosen = 2},
      {.n_experts = 128, .n_chosen = 8, .normalised = false},
      {.n_experts = 3, .n_chosen = 3, .scale = 2.5F},
      {.n_experts = 64, .n_chosen = 6, .score = RouterScore::kSigmoid, .sum_epsilon = 1e-20F},
      {.n_experts = 16,
       .n_chosen = 4,
       .score = RouterScore::kSigmoid,
       .scale = 2.5F,
       .n_groups = 4,
       .n_chosen_groups = 2},
      {.n_experts = 256,
       .n_chosen = 8,
       .score = RouterScore::kSigmoid,
       .n_groups = 8,
       .n_chosen_groups = 4},
  };
}

TEST(Routing, TheChosenExpertsAndTheirWeightsAreTheDefinitions) {
  constexpr int kRows = 40;
  ThreadPool pool(2);
  const Context native{.path = KernelPath::kNative, .pool = &pool};
  const Context reference{.path = KernelPath::kReference};
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const RoutingSpec& spec : Specs()) {
    std::vector<float> logits(static_cast<std::size_t>(kRows * spec.n_experts));
    std::ranges::generate(logits, [&] { return 2 * normal(random); });
    std::vector<float> correction(static_cast<std::size_t>(spec.n_experts));
    std::ranges::generate(correction, [&] { return 0.1F * normal(random); });
    for (const bool corrected : {false, true}) {
      const std::optional<array> added =
          corrected ? std::optional(array(correction.data(), {spec.n_experts})) : std::nullopt;
      const array x(logits.data(), {kRows, spec.n_experts});
      const Chosen ours = Values(Route(native, spec, x, added));
      const Chosen plain = Values(Route(reference, spec, x, added));
      for (int row = 0; row < kRows; ++row) {
        const Chosen twin = Twin(spec, logits.data() + row * spec.n_experts,
                                 corrected ? correction : std::vector<float>());
        for (int j = 0; j < spec.n_chosen; ++j) {
          const auto at = static_cast<std::size_t>(row * spec.n_chosen + j);
          const auto k = static_cast<std::size_t>(j);
          ASSERT_EQ(ours.experts[at], twin.experts[k]) << row << " " << j;
          ASSERT_EQ(plain.experts[at], twin.experts[k]) << row << " " << j;
          ASSERT_NEAR(ours.weights[at], twin.weights[k], 2e-6F * twin.weights[k]);
          ASSERT_NEAR(plain.weights[at], twin.weights[k], 2e-6F * twin.weights[k]);
        }
      }
    }
  }
}

TEST(Routing, ARowsBitsDependNeitherOnTheOtherRowsNorOnTheThreads) {
  constexpr int kRows = 300;
  const RoutingSpec spec{.n_experts = 128, .n_chosen = 8};
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> logits(static_cast<std::size_t>(kRows * spec.n_experts));
  std::ranges::generate(logits, [&] { return normal(random); });
  ThreadPool one(1);
  const Chosen all = Values(Route({.pool = &one}, spec, array(logits.data(), {kRows, 128})));
  ThreadPool three(3);
  const Chosen again = Values(Route({.pool = &three}, spec, array(logits.data(), {kRows, 128})));
  EXPECT_EQ(all.experts, again.experts);
  EXPECT_EQ(all.weights, again.weights);
  for (int row = 0; row < kRows; row += 37) {
    const Chosen alone =
        Values(Route({.pool = &one}, spec, array(logits.data() + row * 128, {1, 128})));
    EXPECT_EQ(alone.experts,
              std::vector(all.experts.begin() + row * 8, all.experts.begin() + (row + 1) * 8));
    EXPECT_EQ(alone.weights,
              std::vector(all.weights.begin() + row * 8, all.weights.begin() + (row + 1) * 8));
  }
}

TEST(Routing, OfEqualScoresTheLowerNumbersWinAndNanChoosesDifferentExperts) {
  ThreadPool pool(1);
  const RoutingSpec spec{.n_experts = 6, .n_chosen = 3};
  EXPECT_EQ(
      Values(Route({.pool = &pool}, spec, array({1.0F, 2.0F, 1.0F, 2.0F, 1.0F, 2.0F}, {1, 6})))
          .experts,
      (std::vector{1, 3, 5}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<int> chosen =
      Values(Route({.pool = &pool}, spec, array({nan, 1.0F, nan, nan, 2.0F, nan}, {1, 6}))).experts;
  std::ranges::sort(chosen);
  EXPECT_EQ(std::ranges::unique(chosen).size(), 0U);
  EXPECT_GE(chosen.front(), 0);
  EXPECT_LT(chosen.back(), 6);
}

}  // namespace
}  // namespace ops
