#include "ops/mamba2/mamba2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/recurrent/test_support.h"
#include "ops/test_sets.h"

namespace ops {
namespace {

namespace mx = mlx::core;
using testing::RandomFloats;
using testing::Stepping;

// State sizes that are no multiple of the lanes or of the partial sums come in too, one and several
// groups and norms, and bounds that cut steps.
const std::vector<Mamba2Spec> kCases{
    {.n_heads = 1, .n_groups = 1, .head_dim = 16, .d_state = 16},
    {.n_heads = 4, .n_groups = 2, .head_dim = 32, .d_state = 32, .n_norms = 2},
    {.n_heads = 2, .n_groups = 1, .head_dim = 48, .d_state = 7, .max_step = 0.5F},
    {.n_heads = 3, .n_groups = 3, .head_dim = 64, .d_state = 128, .min_step = 0.3F}};

Mamba2Spec Placed(Mamba2Spec spec) {
  spec.layer = testing::kRecurrentLayer;
  return spec;
}

std::vector<std::vector<float>> Inputs(const Mamba2Spec& spec) {
  std::vector<std::vector<float>> inputs;
  for (const int length : {150, 1, 64, 67}) {
    inputs.push_back(RandomFloats(static_cast<std::size_t>(length * spec.projected_size()),
                                  static_cast<unsigned>(length)));
  }
  return inputs;
}

struct Vectors {
  std::vector<float> rates;  // long and short memories
  std::vector<float> biases;
  std::vector<float> skips;
  std::vector<float> norm;

  explicit Vectors(const Mamba2Spec& spec)
      : biases(RandomFloats(static_cast<std::size_t>(spec.n_heads), 80)),
        skips(RandomFloats(static_cast<std::size_t>(spec.n_heads), 82)),
        norm(RandomFloats(static_cast<std::size_t>(spec.inner_size()), 81)) {
    for (int h = 0; h < spec.n_heads; ++h) {
      rates.push_back(0.01F * std::pow(10.0F, static_cast<float>(h)));
    }
  }
};

// The layer without its convolution: x, B and C as they are projected.
std::vector<float> RunLayer(const Context& context, const Mamba2Spec& tested,
                            const Stepping& stepping) {
  const Mamba2Spec spec = Placed(tested);
  const auto vector = [](const std::vector<float>& values) {
    return mx::array(values.data(), {static_cast<int>(values.size())}, mx::float32);
  };
  const Vectors vectors(spec);
  const Mamba2Weights weights{.decay_rate = vector(vectors.rates),
                              .dt_bias = vector(vectors.biases),
                              .skip = vector(vectors.skips),
                              .norm = vector(vectors.norm)};
  testing::RecurrentSteps steps(context, spec.state_floats(), 3);
  return steps.Run(
      Inputs(spec), spec.projected_size(), stepping,
      [&](const mx::array& x, const StepBatch& batch, KvStore& store) {
        const mx::array xbc = mx::contiguous(mx::slice(
            x, {0, spec.inner_size()}, {x.shape(0), spec.inner_size() + spec.conv_channels()}));
        return Mamba2(context, spec, xbc, x, weights, batch, store);
      });
}

// The definition, token by token in double.
class Slow {
 public:
  explicit Slow(const Mamba2Spec& spec) : spec_(spec), vectors_(spec) {}

  std::vector<float> Run() {
    std::vector<float> out;
    for (const std::vector<float>& rows : Inputs(spec_)) {
      state_.assign(static_cast<std::size_t>(spec_.state_floats()), 0.0);
      const auto width = static_cast<std::size_t>(spec_.projected_size());
      for (std::size_t at = 0; at < rows.size(); at += width) {
        std::vector<double> gated;
        for (int h = 0; h < spec_.n_heads; ++h) {
          Head(rows.data() + at, h, gated);
        }
        Norm(gated, out);
      }
    }
    return out;
  }

 private:
  void Head(const float* row, int head, std::vector<double>& gated) {
    const auto h = static_cast<std::size_t>(head);
    const int group = head / (spec_.n_heads / spec_.n_groups);
    const float* z = row + head * spec_.head_dim;
    const float* x = z + spec_.inner_size();
    const float* b = row + 2 * spec_.inner_size() + group * spec_.d_state;
    const float* c = b + spec_.group_size();
    const double stored = row[spec_.inner_size() + spec_.conv_channels() + head];
    const double step = std::clamp<double>(std::log1p(std::exp(stored + vectors_.biases[h])),
                                           spec_.min_step, spec_.max_step);
    for (int j = 0; j < spec_.head_dim; ++j) {
      double sum = vectors_.skips[h] * x[j];
      for (int i = 0; i < spec_.d_state; ++i) {
        double& s =
            state_[static_cast<std::size_t>((head * spec_.d_state + i) * spec_.head_dim + j)];
        s = std::exp(-vectors_.rates[h] * step) * s + b[i] * step * x[j];
        sum += c[i] * s;
      }
      gated.push_back(sum * z[j] / (1 + std::exp(-z[j])));
    }
  }

  void Norm(const std::vector<double>& gated, std::vector<float>& out) const {
    const std::size_t part = gated.size() / static_cast<std::size_t>(spec_.n_norms);
    for (std::size_t first = 0; first < gated.size(); first += part) {
      double squares = 0;
      for (std::size_t i = first; i < first + part; ++i) {
        squares += gated[i] * gated[i];
      }
      const double factor = 1 / std::sqrt(squares / static_cast<double>(part) + spec_.norm_eps);
      for (std::size_t i = first; i < first + part; ++i) {
        out.push_back(static_cast<float>(gated[i] * factor * vectors_.norm[i]));
      }
    }
  }

  Mamba2Spec spec_;
  Vectors vectors_;
  std::vector<double> state_;
};

// Normed outputs of magnitude up to 10.
constexpr double kBound = 1e-4;

TEST(Mamba2, IsTheDefinitionOnBothPaths) {
  ThreadPool pool(2);
  for (const Mamba2Spec& tested : kCases) {
    const std::vector<float> slow = Slow(tested).Run();
    for (const int chunk : {1000, 100}) {
      EXPECT_LT(testing::LargestDifference(
                    RunLayer({.path = KernelPath::kReference}, tested, {.chunk = chunk}), slow),
                kBound);
    }
    EXPECT_LT(testing::LargestDifference(RunLayer({.pool = &pool}, tested, {}), slow), kBound);
  }
}

TEST(Mamba2, GivesTheSameBitsHoweverTheSequenceIsCut) {
  for (const Mamba2Spec& tested : kCases) {
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
