#include "ops/moe/experts.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ops/attention/test_support.h"
#include "ops/linear/linear.h"
#include "ops/linear/test_sources.h"

namespace ops {
namespace {

using linear::MakeRandomSource;
using linear::RandomRows;
using mlx::core::array;
using testing::PresentSets;

std::vector<float> Values(array a) {
  a = mlx::core::contiguous(a);
  a.eval();
  return {a.data<float>(), a.data<float>() + a.size()};
}

array Matrix(const std::vector<float>& values, int n_rows) {
  return array(values.data(), {n_rows, static_cast<int>(values.size()) / n_rows});
}

struct Shape {
  int n_experts = 0;
  int hidden = 0;
  int intermediate = 0;
};

// Random experts with the memory that their sources point to.
struct Mixture {
  std::vector<std::unique_ptr<linear::RandomSource>> memory;
  std::vector<ExpertSource> sources;
};

Mixture MakeMixture(const linear::TestFormat& format, const Shape& shape, bool biases) {
  Mixture made;
  unsigned seed = 1;
  const auto matrix = [&](int n_out, int n_in) {
    made.memory.push_back(MakeRandomSource(format, n_out, n_in, seed++));
    return made.memory.back()->source;
  };
  const auto bias = [&](int n) { return biases ? RandomRows(1, n, seed++) : std::vector<float>(); };
  for (int e = 0; e < shape.n_experts; ++e) {
    ExpertSource source{.gate = matrix(shape.intermediate, shape.hidden),
                        .up = matrix(shape.intermediate, shape.hidden),
                        .down = matrix(shape.hidden, shape.intermediate)};
    source.gate_bias = bias(shape.intermediate);
    source.up_bias = bias(shape.intermediate);
    source.down_bias = bias(shape.hidden);
    made.sources.push_back(std::move(source));
  }
  return made;
}

// Each row chooses n_chosen experts; low numbers are chosen more often, so that groups differ.
Routing RandomRouting(int n_rows, int n_chosen, int n_experts, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
  for (int row = 0; row < n_rows; ++row) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(n_experts));
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random);
    if (row % 3 == 0) {
      std::ranges::sort(all);
    }
    for (int j = 0; j < n_chosen; ++j) {
      experts.push_back(all[static_cast<std::size_t>(j)]);
      weights.push_back(static_cast<float>(random() % 1000) * 1e-3F);
    }
  }
  return {.experts = array(experts.data(), {n_rows, n_chosen}),
          .weights = array(weights.data(), {n_rows, n_chosen})};
}

// The slow twin: each row with each of its experts by the operations of dense models, one at a
// time.
std::vector<float> Twin(const Context& context, const std::vector<ExpertSource>& sources,
                        Activation activation, const std::vector<float>& x,
                        const Routing& routing) {
  const int n_rows = routing.experts.shape(0);
  const int n_chosen = routing.experts.shape(1);
  const auto hidden = static_cast<std::ptrdiff_t>(sources.front().gate.n_in);
  std::vector<float> y(x.size(), 0.0F);
  for (std::ptrdiff_t row = 0; row < n_rows; ++row) {
    std::vector<std::pair<int, float>> chosen;
    for (std::ptrdiff_t j = row * n_chosen; j < (row + 1) * n_chosen; ++j) {
      chosen.emplace_back(routing.experts.data<std::int32_t>()[j],
                          routing.weights.data<float>()[j]);
    }
    std::ranges::sort(chosen);
    for (const auto& [number, weight] : chosen) {
      const ExpertSource& source = sources[static_cast<std::size_t>(number)];
      std::vector<float> bias = source.gate_bias;
      bias.insert(bias.end(), source.up_bias.begin(), source.up_bias.end());
      const WeightSource parts[] = {source.gate, source.up};
      const array one(x.data() + row * hidden, {1, static_cast<int>(hidden)});
      const array activated =
          GatedLinearUnit(context, (**MakeLinear(context, parts, bias))(one), activation);
      const std::vector<float> output =
          Values((**MakeLinear(context, {&source.down, 1}, source.down_bias))(activated));
      for (std::ptrdiff_t i = 0; i < hidden; ++i) {
        y[static_cast<std::size_t>(row * hidden + i)] +=
            weight * output[static_cast<std::size_t>(i)];
      }
    }
  }
  return y;
}

std::vector<linear::TestFormat> SomeFormats() {
  const auto gguf = linear::GgufFormats();
  const auto mlx = linear::MlxFormats();
  const auto floats = linear::FloatFormats();
  return {gguf[0], gguf[3], mlx[6], floats[0], floats[2]};
}

std::unique_ptr<Experts> Make(const Context& context, const Mixture& mixture,
                              Activation activation) {
  Result<std::unique_ptr<Experts>> made = MakeExperts(context, mixture.sources, activation);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

TEST(Experts, EveryRowGetsTheBitsThatItsExpertsGiveItAlone) {
  constexpr int kRows = 29;
  const Shape shape{.n_experts = 5, .hidden = 96, .intermediate = 64};
  for (const linear::TestFormat& format : SomeFormats()) {
    for (const bool biases : {false, true}) {
      const Activation activation = biases ? Activation::kClampedSwiglu : Activation::kSilu;
      const Mixture mixture = MakeMixture(format, shape, biases);
      const std::vector<float> x = RandomRows(kRows, shape.hidden);
      const Routing routing = RandomRouting(kRows, 2, shape.n_experts, 3);
      for (const InstructionSet set : PresentSets()) {
        ThreadPool pool(2);
        const Context context{.instruction_set = set, .pool = &pool};
        const std::vector<float> expected = Twin(context, mixture.sources, activation, x, routing);
        const auto experts = Make(context, mixture, activation);
        EXPECT_EQ(Values((*experts)(Matrix(x, kRows), routing)), expected)
            << format.name << " " << Name(set);
      }
    }
  }
}

TEST(Experts, NativeAndReferenceAgree) {
  constexpr int kRows = 9;
  const Shape shape{.n_experts = 4, .hidden = 64, .intermediate = 96};
  for (const linear::TestFormat& format : SomeFormats()) {
    const Mixture mixture = MakeMixture(format, shape, /*biases=*/true);
    const std::vector<float> x = RandomRows(kRows, shape.hidden);
    const Routing routing = RandomRouting(kRows, 3, shape.n_experts, 4);
    ThreadPool pool(2);
    const Context native{.instruction_set = BestInstructionSet(), .pool = &pool};
    const Context reference{.path = KernelPath::kReference};
    const auto ours = Make(native, mixture, Activation::kSilu);
    const auto plain = Make(reference, mixture, Activation::kSilu);
    const std::vector<float> a = Values((*ours)(Matrix(x, kRows), routing));
    const std::vector<float> b = Values((*plain)(Matrix(x, kRows), routing));
    double error = 0;
    double square = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      error += (a[i] - b[i]) * (a[i] - b[i]);
      square += b[i] * b[i];
    }
    // Activations rounded to int8 twice, with outliers of 30 sigma among them; or float32 sums.
    EXPECT_LT(std::sqrt(error / square), linear::IsFloat(format.format) ? 1e-5 : 0.05)
        << format.name;
    EXPECT_EQ(ours->n_experts(), 4);
    EXPECT_EQ(plain->n_experts(), 4);
    EXPECT_GT(ours->bytes(), 0U);
    EXPECT_GT(plain->bytes(), 0U);
  }
}

TEST(Experts, ARowsBitsDependNeitherOnTheOtherRowsNorOnTheThreads) {
  constexpr int kRows = 1500;  // three waves
  const Shape shape{.n_experts = 7, .hidden = 64, .intermediate = 32};
  const Mixture mixture = MakeMixture(linear::GgufFormats()[1], shape, /*biases=*/false);
  const std::vector<float> x = RandomRows(kRows, shape.hidden);
  const Routing routing = RandomRouting(kRows, 4, shape.n_experts, 5);
  for (const InstructionSet set : PresentSets()) {
    ThreadPool one(1);
    const auto alone = Make({.instruction_set = set, .pool = &one}, mixture, Activation::kSilu);
    const std::vector<float> all = Values((*alone)(Matrix(x, kRows), routing));
    for (const int n_threads : {2, 3}) {
      ThreadPool pool(n_threads);
      const auto experts =
          Make({.instruction_set = set, .pool = &pool}, mixture, Activation::kSilu);
      EXPECT_EQ(Values((*experts)(Matrix(x, kRows), routing)), all) << Name(set) << n_threads;
    }
    for (int row = 0; row < kRows; row += 97) {
      const std::vector<float> own(x.begin() + row * 64, x.begin() + (row + 1) * 64);
      const Routing its{.experts = mlx::core::slice(routing.experts, {row, 0}, {row + 1, 4}),
                        .weights = mlx::core::slice(routing.weights, {row, 0}, {row + 1, 4})};
      EXPECT_EQ(Values((*alone)(Matrix(own, 1), its)),
                std::vector(all.begin() + row * 64, all.begin() + (row + 1) * 64))
          << Name(set) << " " << row;
    }
  }
}

TEST(Experts, MatricesThatDoNotFitTogetherAreRefusedByName) {
  ThreadPool pool(1);
  const Shape shape{.n_experts = 2, .hidden = 64, .intermediate = 32};
  const auto refusal = [&](Mixture mixture, KernelPath path) {
    const auto made =
        MakeExperts({.path = path, .pool = &pool}, mixture.sources, Activation::kSilu);
    return made ? std::string("accepted") : made.error().message;
  };
  for (const KernelPath path : {KernelPath::kNative, KernelPath::kReference}) {
    Mixture mixture = MakeMixture(linear::GgufFormats()[0], shape, false);
    const auto other = MakeRandomSource(linear::GgufFormats()[3], 32, 64);
    mixture.sources[1].up = other->source;
    EXPECT_EQ(refusal(std::move(mixture), path),
              "Tensors `q4_0` and `q8_0` are matrices of experts, but are stored in different "
              "formats.");
    mixture = MakeMixture(linear::GgufFormats()[0], shape, false);
    std::swap(mixture.sources[1].up, mixture.sources[1].down);
    EXPECT_EQ(refusal(std::move(mixture), path),
              "Tensor `q4_0` has the shape [64, 32], but the other experts ask for [32, 64].");
    mixture = MakeMixture(linear::GgufFormats()[0], shape, true);
    mixture.sources[1].down_bias.clear();
    EXPECT_EQ(refusal(std::move(mixture), path),
              "The bias of tensor `q4_0` should have 64 values, but has 0.");
  }
}

}  // namespace
}  // namespace ops
