#include "ops/gated_delta/gated_delta.h"

#include <gtest/gtest.h>

#include "ops/recurrent/test_support.h"

namespace ops {
namespace {

namespace mx = mlx::core;
using testing::RandomFloats;
using testing::Stepping;

struct Case {
  int n_k_heads = 1;
  int n_v_heads = 1;
  int k_dim = 16;
  int v_dim = 16;

  [[nodiscard]] GatedDeltaSpec Spec() const {
    return {.layer = testing::kRecurrentLayer,
            .n_k_heads = n_k_heads,
            .n_v_heads = n_v_heads,
            .k_dim = k_dim,
            .v_dim = v_dim};
  }
};

// Key sizes that are no multiple of the lanes or of the partial sums come in too.
const std::vector<Case> kCases{{},
                               {.n_k_heads = 2, .n_v_heads = 4, .k_dim = 32, .v_dim = 32},
                               {.n_k_heads = 2, .n_v_heads = 2, .k_dim = 7, .v_dim = 48},
                               {.n_k_heads = 1, .n_v_heads = 3, .k_dim = 128, .v_dim = 128}};

std::vector<std::vector<float>> Inputs(const Case& tested) {
  std::vector<std::vector<float>> inputs;
  for (const int length : {150, 1, 64, 67}) {
    inputs.push_back(RandomFloats(static_cast<std::size_t>(length * tested.Spec().projected_size()),
                                  static_cast<unsigned>(length)));
  }
  return inputs;
}

// Long and short memories: e^-0.001 to e^-3 a token.
std::vector<float> Rates(const Case& tested) {
  std::vector<float> rates;
  for (int h = 0; h < tested.n_v_heads; ++h) {
    rates.push_back(0.002F * std::pow(30.0F, static_cast<float>(h)));
  }
  return rates;
}
std::vector<float> Biases(const Case& tested) {
  return RandomFloats(static_cast<std::size_t>(tested.n_v_heads), 80);
}
std::vector<float> Norm(const Case& tested) {
  return RandomFloats(static_cast<std::size_t>(tested.v_dim), 81);
}

// The layer without its convolution: q, k and v as they are projected.
std::vector<float> RunLayer(const Context& context, const Case& tested, const Stepping& stepping) {
  const GatedDeltaSpec spec = tested.Spec();
  const auto vector = [](const std::vector<float>& values) {
    return mx::array(values.data(), {static_cast<int>(values.size())}, mx::float32);
  };
  const GatedDeltaWeights weights{.decay_rate = vector(Rates(tested)),
                                  .dt_bias = vector(Biases(tested)),
                                  .norm = vector(Norm(tested))};
  testing::RecurrentSteps steps(context, spec.state_floats(), 3);
  return steps.Run(Inputs(tested), spec.projected_size(), stepping,
                   [&](const mx::array& x, const StepBatch& batch, KvStore& store) {
                     const mx::array qkv = mx::contiguous(mx::slice(
                         x, {0, 0}, {x.shape(0), 2 * spec.key_size() + spec.value_size()}));
                     return GatedDelta(context, spec, qkv, x, weights, batch, store);
                   });
}

// The definition, token by token in double.
class Slow {
 public:
  explicit Slow(const Case& tested) : spec_(tested.Spec()), tested_(tested) {}

  std::vector<float> Run() {
    std::vector<float> out;
    for (const std::vector<float>& rows : Inputs(tested_)) {
      state_.assign(static_cast<std::size_t>(spec_.state_floats()), 0.0);
      const auto width = static_cast<std::size_t>(spec_.projected_size());
      for (std::size_t at = 0; at < rows.size(); at += width) {
        for (int h = 0; h < spec_.n_v_heads; ++h) {
          Head(rows.data() + at, h, out);
        }
      }
    }
    return out;
  }

 private:
  static std::vector<double> Unit(const float* x, int n) {
    double squares = 1e-6;
    for (int i = 0; i < n; ++i) {
      squares += static_cast<double>(x[i]) * x[i];
    }
    std::vector<double> unit;
    for (int i = 0; i < n; ++i) {
      unit.push_back(x[i] / std::sqrt(squares));
    }
    return unit;
  }

  double& S(int head, int i, int j) {
    return state_[static_cast<std::size_t>((head * spec_.k_dim + i) * spec_.v_dim + j)];
  }

  void Head(const float* row, int head, std::vector<float>& out) {
    const int key = spec_.key_size();
    const int value = spec_.value_size();
    const int k_head = head / (spec_.n_v_heads / spec_.n_k_heads);
    const std::vector<double> q = Unit(row + k_head * spec_.k_dim, spec_.k_dim);
    const std::vector<double> k = Unit(row + key + k_head * spec_.k_dim, spec_.k_dim);
    const float* v = row + 2 * key + head * spec_.v_dim;
    const float* z = v + value;
    const double b = row[2 * key + 2 * value + head];
    const double a = row[2 * key + 2 * value + spec_.n_v_heads + head];
    const auto h = static_cast<std::size_t>(head);
    const double g = std::exp(-Rates(tested_)[h] * std::log1p(std::exp(a + Biases(tested_)[h])));
    std::vector<double> o;
    double squares = 0;
    for (int j = 0; j < spec_.v_dim; ++j) {
      double known = 0;
      for (int i = 0; i < spec_.k_dim; ++i) {
        S(head, i, j) *= g;
        known += k[static_cast<std::size_t>(i)] * S(head, i, j);
      }
      const double change = (v[j] - known) / (1 + std::exp(-b));
      double sum = 0;
      for (int i = 0; i < spec_.k_dim; ++i) {
        S(head, i, j) += k[static_cast<std::size_t>(i)] * change;
        sum += q[static_cast<std::size_t>(i)] / std::sqrt(spec_.k_dim) * S(head, i, j);
      }
      o.push_back(sum);
      squares += sum * sum;
    }
    const std::vector<float> norm = Norm(tested_);
    for (int j = 0; j < spec_.v_dim; ++j) {
      const auto at = static_cast<std::size_t>(j);
      out.push_back(static_cast<float>(o[at] / std::sqrt(squares / spec_.v_dim + spec_.norm_eps) *
                                       norm[at] * z[j] / (1 + std::exp(-z[j]))));
    }
  }

  GatedDeltaSpec spec_;
  Case tested_;
  std::vector<double> state_;
};

// Normed outputs of magnitude up to 10; errors of the state decay with it.
constexpr double kBound = 1e-4;

TEST(GatedDelta, IsTheDefinitionOnBothPaths) {
  ThreadPool pool(2);
  for (const Case& tested : kCases) {
    const std::vector<float> slow = Slow(tested).Run();
    for (const int chunk : {1000, 100}) {
      EXPECT_LT(testing::LargestDifference(
                    RunLayer({.path = KernelPath::kReference}, tested, {.chunk = chunk}), slow),
                kBound);
    }
    EXPECT_LT(testing::LargestDifference(RunLayer({.pool = &pool}, tested, {}), slow), kBound);
  }
}

TEST(GatedDelta, GivesTheSameBitsHoweverTheSequenceIsCut) {
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
