#include "ops/short_conv/short_conv.h"

#include <gtest/gtest.h>

#include "ops/recurrent/test_support.h"

namespace ops {
namespace {

namespace mx = mlx::core;
using testing::RandomFloats;
using testing::Stepping;

struct Case {
  int channels = 0;
  int kernel = 0;
  int first_column = 0;
  ConvActivation activation = ConvActivation::kSilu;
  bool has_bias = false;

  [[nodiscard]] int width() const { return first_column + channels + 3; }
  [[nodiscard]] ShortConvSpec Spec() const {
    return {.layer = testing::kRecurrentLayer,
            .first_column = first_column,
            .channels = channels,
            .kernel = kernel,
            .activation = activation,
            .in_gate_column = 1,
            .out_gate_column = 0};
  }
  [[nodiscard]] std::vector<float> Weight() const {
    return RandomFloats(static_cast<std::size_t>(channels * kernel), 90);
  }
  [[nodiscard]] std::vector<float> Bias() const {
    return RandomFloats(static_cast<std::size_t>(channels), 91);
  }
};

const std::vector<Case> kCases{
    {.channels = 1, .kernel = 2},
    {.channels = 37, .kernel = 3, .first_column = 5, .activation = ConvActivation::kNone},
    {.channels = 300, .kernel = 4, .first_column = 16},
    {.channels = 50, .kernel = 3, .first_column = 60, .activation = ConvActivation::kGates},
    {.channels = 140, .kernel = 8, .has_bias = true}};

std::vector<std::vector<float>> Inputs(const Case& tested) {
  std::vector<std::vector<float>> inputs;
  for (const int length : {200, 1, 64, 131}) {
    inputs.push_back(RandomFloats(static_cast<std::size_t>(length * tested.width()),
                                  static_cast<unsigned>(length)));
  }
  return inputs;
}

std::vector<float> RunLayer(const Context& context, const Case& tested, const Stepping& stepping) {
  const std::vector<float> weight = tested.Weight();
  const std::vector<float> bias = tested.Bias();
  const mx::array taps(weight.data(), {tested.kernel, tested.channels}, mx::float32);
  std::optional<mx::array> shift;
  if (tested.has_bias) {
    shift = mx::array(bias.data(), {tested.channels}, mx::float32);
  }
  testing::RecurrentSteps steps(context, 10, tested.Spec().state_floats());
  return steps.Run(Inputs(tested), tested.width(), stepping,
                   [&](const mx::array& x, const StepBatch& batch, KvStore& store) {
                     return ShortConv(context, tested.Spec(), x, taps, shift, batch, store);
                   });
}

// The definition, in double.
std::vector<float> Slow(const Case& tested) {
  const std::vector<float> weight = tested.Weight();
  const std::vector<float> bias = tested.Bias();
  std::vector<float> out;
  for (const std::vector<float>& x : Inputs(tested)) {
    const int n = static_cast<int>(x.size()) / tested.width();
    for (int t = 0; t < n; ++t) {
      for (int c = 0; c < tested.channels; ++c) {
        const auto at = [&](int row, int column) {
          return static_cast<double>(x[static_cast<std::size_t>(row * tested.width() + column)]);
        };
        const bool is_gated = tested.activation == ConvActivation::kGates;
        double sum = tested.has_bias ? bias[static_cast<std::size_t>(c)] : 0.0;
        for (int j = 0; j < tested.kernel; ++j) {
          const int row = t - tested.kernel + 1 + j;
          const double tap = weight[static_cast<std::size_t>(j * tested.channels + c)];
          sum += row < 0 ? 0.0
                         : tap * at(row, tested.first_column + c) *
                               (is_gated ? at(row, tested.Spec().in_gate_column + c) : 1.0);
        }
        sum *= is_gated ? at(t, tested.Spec().out_gate_column + c) : 1.0;
        out.push_back(static_cast<float>(
            tested.activation == ConvActivation::kSilu ? sum / (1 + std::exp(-sum)) : sum));
      }
    }
  }
  return out;
}

constexpr double kBound = 1e-5;  // sums of up to eight products of normal numbers

TEST(ShortConv, IsTheDefinitionOnBothPaths) {
  ThreadPool pool(2);
  for (const Case& tested : kCases) {
    const std::vector<float> slow = Slow(tested);
    EXPECT_LT(
        testing::LargestDifference(RunLayer({.path = KernelPath::kReference}, tested, {}), slow),
        kBound);
    EXPECT_LT(testing::LargestDifference(
                  RunLayer({.path = KernelPath::kReference}, tested, {.chunk = 100}), slow),
              kBound);
    EXPECT_LT(testing::LargestDifference(RunLayer({.pool = &pool}, tested, {}), slow), kBound);
  }
}

TEST(ShortConv, GivesTheSameBitsHoweverTheSequenceIsCut) {
  for (const Case& tested : kCases) {
    ThreadPool alone(1);
    const std::vector<float> expected = RunLayer({.pool = &alone}, tested, {.together = 1});
    for (const int n_threads : {1, 3}) {
      ThreadPool pool(n_threads);
      for (const InstructionSet set : testing::PresentSets()) {
        for (const Stepping& stepping : testing::OddSteppings()) {
          EXPECT_TRUE(testing::SameBits(
              RunLayer({.instruction_set = set, .pool = &pool}, tested, stepping), expected))
              << Name(set) << " chunk " << stepping.chunk;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ops
