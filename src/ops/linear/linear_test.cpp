#include "ops/linear/linear.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <memory>

#include "ops/linear/test_sources.h"

namespace ops {
namespace {

using linear::MakeRandomSource;
using linear::RandomRows;
using mlx::core::array;

Context Native(ThreadPool& pool) {
  return {.path = KernelPath::kNative, .instruction_set = BestInstructionSet(), .pool = &pool};
}

Context Reference() { return {.path = KernelPath::kReference}; }

std::unique_ptr<Linear> Make(const Context& context, std::span<const WeightSource> parts,
                             std::span<const float> bias = {}) {
  Result<std::unique_ptr<Linear>> made = MakeLinear(context, parts, bias);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

array Matrix(const std::vector<float>& values, int n_rows) {
  return array(values.data(), {n_rows, static_cast<int>(values.size()) / n_rows});
}

std::vector<float> Values(array a) {
  a = mlx::core::contiguous(a);
  a.eval();
  return {a.data<float>(), a.data<float>() + a.size()};
}

// Weights as double, [n_out][n_in].
std::vector<std::vector<double>> StoredValues(const WeightSource& source) {
  std::vector<std::vector<double>> rows;
  for (int r = 0; r < source.n_out; ++r) {
    std::vector<double> row;
    if (linear::IsFloat(source.format)) {
      std::vector<float> floats(static_cast<std::size_t>(source.n_in));
      linear::DecodeFloatRow(source, r, floats.data());
      row.assign(floats.begin(), floats.end());
    } else {
      const linear::Coding coding = linear::CodingOf(source);
      linear::CodedRow coded(coding, source.n_in);
      linear::DecodeRow(source, r, coded);
      for (std::size_t i = 0; i < coded.codes.size(); ++i) {
        const std::size_t g = i / static_cast<std::size_t>(coding.scale_group);
        row.push_back(double{coded.scales[g]} * (coded.codes[i] - coding.zero) +
                      (coding.affine ? double{coded.biases[g]} : 0.0));
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// How far a native result may be from the exact product of the stored weights and the unrounded x.
//   Rounding x: each x is off by at most half a step, so by group 0.5 * max|x| / 127 * sum|w|
//   (quantised only). float32: each of about three roundings an input or group is below 2^-23 of
//   the sum of all |terms|; an affine group's terms are |scale * code * x| and |bias * x|, which
//   may be larger than |w x|.
double ErrorBound(const WeightSource& source, const std::vector<double>& w, const float* x, int row,
                  bool rounds_x) {
  double rounding = 0;
  double terms = 0;
  for (std::size_t first = 0; first < w.size(); first += 32) {
    double max = 0;
    double weights = 0;
    for (std::size_t i = first; i < std::min(first + 32, w.size()); ++i) {
      max = std::max(max, std::fabs(double{x[i]}));
      weights += std::fabs(w[i]);
      terms += std::fabs(w[i] * x[i]);
    }
    rounding += 0.5 * max / 127 * weights;
  }
  if (!linear::IsFloat(source.format)) {
    const linear::Coding coding = linear::CodingOf(source);
    linear::CodedRow coded(coding, source.n_in);
    linear::DecodeRow(source, row, coded);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const std::size_t g = i / static_cast<std::size_t>(coding.scale_group);
      const double zero = coding.affine ? coded.biases[g] : double{coded.scales[g]} * coding.zero;
      terms += 2 * std::fabs(zero * x[i]);
    }
  }
  const double roundings = 3.0 * static_cast<double>(w.size()) * 0x1p-24;
  return (rounds_x ? rounding * 1.001 : 0) + terms * roundings;
}

void ExpectWithinBound(const WeightSource& source, const std::vector<float>& x,
                       const std::vector<float>& y, bool rounds_x, const std::string& what) {
  const auto weights = StoredValues(source);
  const std::size_t n_in = static_cast<std::size_t>(source.n_in);
  for (std::size_t at = 0; at < y.size(); ++at) {
    const std::size_t row = at % weights.size();
    const float* values = x.data() + at / weights.size() * n_in;
    double exact = 0;
    for (std::size_t i = 0; i < n_in; ++i) {
      exact += weights[row][i] * values[i];
    }
    ASSERT_NEAR(y[at], exact,
                ErrorBound(source, weights[row], values, static_cast<int>(row), rounds_x))
        << what << " at " << at;
  }
}

TEST(Linear, NativeAndReferenceStayWithinTheErrorThatRoundedActivationsExplain) {
  ThreadPool pool(2);
  for (const linear::TestFormat& format : linear::AllFormats()) {
    const int n_in = format.block() == 1 ? 200 : 256;
    const auto made = MakeRandomSource(format, 19, n_in);
    const std::vector<float> x = RandomRows(5, n_in);
    const bool quantised = !linear::IsFloat(format.format);
    const auto native = Make(Native(pool), {&made->source, 1});
    ExpectWithinBound(made->source, x, Values((*native)(Matrix(x, 5))), quantised,
                      format.name + " native");
    const auto reference = Make(Reference(), {&made->source, 1});
    ExpectWithinBound(made->source, x, Values((*reference)(Matrix(x, 5))), false,
                      format.name + " reference");
    EXPECT_EQ(native->n_out(), 19);
    EXPECT_EQ(reference->n_in(), n_in);
    EXPECT_GT(native->bytes(), 0U);
    EXPECT_GT(reference->bytes(), 0U);
  }
}

TEST(Linear, RowsAreTheSameNativeAndReference) {
  ThreadPool pool(2);
  const auto first = MakeRandomSource(linear::GgufFormats()[3], 30, 256, 1);
  const auto second = MakeRandomSource(linear::GgufFormats()[6], 9, 256, 2);
  const WeightSource parts[] = {first->source, second->source};
  const array tokens({0, 38, 29, 30, 3, 3});
  const std::vector<float> native = Values(Make(Native(pool), parts)->Rows(tokens));
  const std::vector<float> reference = Values(Make(Reference(), parts)->Rows(tokens));
  ASSERT_EQ(native.size(), 6U * 256U);
  const auto stored = StoredValues(second->source);
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(native[256 + i], static_cast<float>(stored[8][i]));
  }
  for (std::size_t i = 0; i < native.size(); ++i) {
    // The reference keeps a zero point as a float bias: scale * code and the sum are rounded.
    ASSERT_NEAR(native[i], reference[i], 0x1p-15F);
  }
}

TEST(Linear, StackedPartsAndBiasGiveTheSameNativeAndReference) {
  ThreadPool pool(2);
  const auto q = MakeRandomSource(linear::FloatFormats()[0], 20, 64, 1);
  const auto k = MakeRandomSource(linear::FloatFormats()[2], 5, 64, 2);
  const WeightSource parts[] = {q->source, k->source};
  std::vector<float> bias(25);
  for (std::size_t i = 0; i < bias.size(); ++i) {
    bias[i] = static_cast<float>(i);
  }
  const array x = Matrix(RandomRows(3, 64), 3);
  const std::vector<float> native = Values((*Make(Native(pool), parts, bias))(x));
  const std::vector<float> reference = Values((*Make(Reference(), parts, bias))(x));
  ASSERT_EQ(native.size(), 75U);
  for (std::size_t i = 0; i < native.size(); ++i) {
    ASSERT_NEAR(native[i], reference[i], 1e-3F);
  }
}

TEST(Linear, InputsThatAreViewsOrHalvesAreTakenToo) {
  ThreadPool pool(1);
  const auto made = MakeRandomSource(linear::GgufFormats()[1], 16, 64);
  const auto native = Make(Native(pool), {&made->source, 1});
  const std::vector<float> x = RandomRows(6, 64);
  const array rows = Matrix(x, 6);
  const std::vector<float> all = Values((*native)(rows));
  const array turned = mlx::core::transpose(mlx::core::contiguous(mlx::core::transpose(rows)));
  EXPECT_EQ(Values((*native)(turned)), all);
  const std::vector<float> every_second =
      Values((*native)(mlx::core::slice(rows, {0, 0}, {6, 64}, {2, 1})));
  EXPECT_EQ(every_second, Values(mlx::core::take(Matrix(all, 6), array({0, 2, 4}), 0)));
  const array halves = mlx::core::astype(rows, mlx::core::float16);
  EXPECT_EQ(Values((*native)(halves)),
            Values((*native)(mlx::core::astype(halves, mlx::core::float32))));
}

TEST(Linear, PendingResultsOutliveTheLinearThatMadeThem) {
  ThreadPool pool(2);
  const auto made = MakeRandomSource(linear::GgufFormats()[0], 64, 64);
  const std::vector<float> x = RandomRows(4, 64);
  auto native = Make(Native(pool), {&made->source, 1});
  const std::vector<float> expected = Values((*native)(Matrix(x, 4)));
  array y = (*native)(Matrix(x, 4));
  native.reset();
  EXPECT_EQ(Values(y), expected);
}

TEST(Linear, PartsThatDoNotFitTogetherAreRefused) {
  ThreadPool pool(1);
  const auto a = MakeRandomSource(linear::GgufFormats()[0], 8, 64);
  const auto b = MakeRandomSource(linear::GgufFormats()[0], 8, 96);
  const WeightSource parts[] = {a->source, b->source};
  for (const Context& context : {Native(pool), Reference()}) {
    const auto made = MakeLinear(context, parts);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::kBadModel);
    EXPECT_EQ(made.error().message,
              "Tensors `q4_0` and `q4_0` are used together, but have 64 and 96 inputs.");
    const std::vector<float> bias(9);
    EXPECT_EQ(MakeLinear(context, {&a->source, 1}, bias).error().message,
              "The bias of tensor `q4_0` should have 8 values, but has 9.");
  }
}

TEST(Linear, AFloatLinearMultipliesWithTheStoredValuesAndRoundsNoInput) {
  ThreadPool pool(2);
  for (const linear::TestFormat& format : linear::AllFormats()) {
    const int n_in = format.block() == 1 ? 200 : 256;
    const auto made = MakeRandomSource(format, 19, n_in);
    const std::vector<float> x = RandomRows(3, n_in);
    for (const Context& context : {Native(pool), Reference()}) {
      const auto floats = MakeFloatLinear(context, made->source);
      ASSERT_TRUE(floats.has_value());
      ExpectWithinBound(made->source, x, Values((**floats)(Matrix(x, 3))), false, format.name);
    }
  }
}

}  // namespace
}  // namespace ops
