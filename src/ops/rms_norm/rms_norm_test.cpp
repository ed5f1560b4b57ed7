#include "ops/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include "ops/attention/test_support.h"
#include "ops/glu/glu.h"

namespace ops {
namespace {

namespace mx = mlx::core;

std::vector<float> Values(mx::array x) {
  x = mx::contiguous(x);
  x.eval();
  return {x.data<float>(), x.data<float>() + x.size()};
}

mx::array Random(int rows, int columns, unsigned seed) {
  const std::vector<float> values =
      testing::RandomFloats(static_cast<std::size_t>(rows * columns), seed);
  return mx::array(values.data(), {rows, columns}, mx::float32);
}

// float32 sums over rows of up to 600, results of up to 12 in magnitude (4 ulp are 4e-6 there).
constexpr double kBound = 1e-5;

// Every operation, row by row, for each set and thread count, against the reference graph.
TEST(RowOperations, AgreeWithTheReferenceGraphWhateverTheThreads) {
  const Context reference{.path = KernelPath::kReference};
  for (const int rows : {1, 2, 33, 200}) {
    for (const int d : {6, 64, 600}) {
      const mx::array x = Random(rows, d, 1);
      const mx::array residual = Random(rows, d, 2);
      const mx::array weight = mx::squeeze(Random(1, d, 3), 0);
      const mx::array gate_up = Random(rows, 2 * d, 4);
      const mx::array short_weight = mx::squeeze(Random(1, d / 3, 5), 0);
      const auto all = [&](const Context& context) {
        const auto added = AddRmsNorm(context, x, residual, weight, 1e-6F);
        return std::vector<std::vector<float>>{
            Values(RmsNorm(context, x, weight, 1e-6F)),
            Values(added.first),
            Values(added.second),
            Values(AddRmsNorm(context, x, residual, weight, 1e-6F, 0.22F).first),
            Values(RmsNormColumns(context, gate_up, {weight, short_weight}, 1e-6F)),
            Values(GatedLinearUnit(context, gate_up, Activation::kSilu)),
            Values(GatedLinearUnit(context, gate_up, Activation::kGeluTanh)),
            Values(SigmoidGate(context, x, residual))};
      };
      const auto expected = all(reference);
      std::vector<std::vector<float>> first;
      for (const int n_threads : {1, 2, 3}) {
        ThreadPool pool(n_threads);
        for (const InstructionSet set : testing::PresentSets()) {
          const auto actual = all({.instruction_set = set, .pool = &pool});
          first = first.empty() ? actual : first;
          for (std::size_t i = 0; i < actual.size(); ++i) {
            EXPECT_LT(testing::LargestDifference(actual[i], expected[i]), kBound)
                << i << " " << rows << " " << d;
            EXPECT_TRUE(testing::SameBits(actual[i], first[i]))
                << i << " " << Name(set) << " " << n_threads;
          }
        }
      }
    }
  }
}

TEST(RowOperations, ARowDoesNotDependOnItsNeighbours) {
  ThreadPool pool(2);
  const Context context{.instruction_set = BestInstructionSet(), .pool = &pool};
  const mx::array x = Random(100, 576, 1);
  const mx::array weight = mx::squeeze(Random(1, 576, 3), 0);
  const std::vector<float> together = Values(RmsNorm(context, x, weight, 1e-6F));
  const std::vector<float> alone =
      Values(RmsNorm(context, mx::slice(x, {50, 0}, {51, 576}), weight, 1e-6F));
  EXPECT_TRUE(testing::SameBits(alone, {together.begin() + 50 * 576, together.begin() + 51 * 576}));
}

}  // namespace
}  // namespace ops
