// The native products against the contract of kernels.h, computed one weight at a time. All
// instruction sets must give the very same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "ops/linear/native_product.h"
#include "ops/linear/test_sources.h"
#include "ops/test_sets.h"

namespace ops::linear {
namespace {

using ops::testing::PresentSets;

// The slow twin: one row of x times one row of W.
float TwinFloat(const float* x, const std::vector<float>& w) {
  float acc = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    acc = std::fma(x[i], w[i], acc);
  }
  return acc;
}

// E4M3: the sum over the inputs of each scale, then times the scale.
float TwinF8(const WeightSource& source, int row, const float* x) {
  const auto n_in = static_cast<std::size_t>(source.n_in);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(source.data.data()) +
                      static_cast<std::size_t>(row) * n_in;
  float acc = 0;
  for (std::size_t first = 0; first < n_in; first += 128) {
    float sum = 0;
    for (std::size_t i = first; i < std::min(n_in, first + 128); ++i) {
      sum = std::fma(x[i], DecodeF8(bytes[i]), sum);
    }
    const float term = sum * FloatScale(source, row, static_cast<int>(first));
    acc = first == 0 ? term : acc + term;
  }
  return acc;
}

float TwinCoded(const float* x, const CodedRow& w, const Coding& coding) {
  float acc = 0;
  const std::size_t step = static_cast<std::size_t>(std::min(coding.scale_group, 32));
  std::vector<std::pair<float, float>> pending;  // biases of groups of 16, and sums of x
  const auto add_pending = [&] {
    for (const auto& [bias, sum] : pending) {
      acc = std::fma(bias, sum, acc);
    }
    pending.clear();
  };
  for (std::size_t g = 0; g < w.codes.size() / 32; ++g) {
    float max = 0;
    for (std::size_t i = 32 * g; i < 32 * g + 32; ++i) {
      max = std::max(max, std::fabs(x[i]));
    }
    const float x_scale = max < 1e-30F ? 0 : max / 127.0F;
    const float inverse = max < 1e-30F ? 0 : 127.0F / max;
    for (std::size_t first = 32 * g; first < 32 * g + 32; first += step) {
      long dot = 0;
      long sum = 0;
      for (std::size_t i = first; i < first + step; ++i) {
        const long q = std::lrint(std::clamp(x[i] * inverse, -127.0F, 127.0F));
        dot += q * (w.codes[i] - coding.zero);
        sum += q;
      }
      const std::size_t scale = first / static_cast<std::size_t>(coding.scale_group);
      acc = std::fma(static_cast<float>(dot), w.scales[scale] * x_scale, acc);
      if (coding.affine) {
        pending.emplace_back(w.biases[scale], x_scale * static_cast<float>(sum));
      }
    }
    if (coding.scale_group != 16 || 32 * (g + 1) % kChunk == 0) {
      add_pending();
    }
  }
  add_pending();
  return acc;
}

std::vector<float> Twin(const WeightSource& source, const std::vector<float>& x, int n_rows) {
  const std::size_t n_in = static_cast<std::size_t>(source.n_in);
  const std::size_t n_out = static_cast<std::size_t>(source.n_out);
  std::vector<float> y(static_cast<std::size_t>(n_rows) * n_out);
  std::vector<float> floats(n_in);
  const Coding coding = IsFloat(source.format) ? Coding{} : CodingOf(source);
  CodedRow row(coding, IsFloat(source.format) ? 0 : source.n_in);
  for (std::size_t o = 0; o < n_out; ++o) {
    if (IsFloat(source.format)) {
      DecodeFloatRow(source, static_cast<int>(o), floats.data());
    } else {
      DecodeRow(source, static_cast<int>(o), row);
    }
    for (std::size_t t = 0; t < static_cast<std::size_t>(n_rows); ++t) {
      const float* values = x.data() + t * n_in;
      y[t * n_out + o] = source.format == WeightFormat::kF8E4M3
                             ? TwinF8(source, static_cast<int>(o), values)
                         : IsFloat(source.format) ? TwinFloat(values, floats)
                                                  : TwinCoded(values, row, coding);
    }
  }
  return y;
}

NativeProduct MakeProduct(const std::vector<const WeightSource*>& sources, InstructionSet set,
                          ThreadPool& pool, std::vector<float> bias = {}) {
  std::vector<PackedMatrix> parts;
  for (const WeightSource* source : sources) {
    EXPECT_TRUE(CheckSource(*source).has_value());
    parts.emplace_back(*source, pool);
  }
  return {std::move(parts), std::move(bias), KernelsFor(set), pool};
}

std::vector<float> MultiplyRows(const NativeProduct& product, const std::vector<float>& x,
                                int n_rows) {
  std::vector<float> y(static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(product.n_out()),
                       -1.0F);
  product.Multiply(x.data(), n_rows, y.data());
  return y;
}

void ExpectSameBits(const std::vector<float>& actual, const std::vector<float>& expected,
                    const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << what << " at " << i << ": " << actual[i] << " instead of " << expected[i];
  }
}

std::vector<int> SomeInputs(const TestFormat& format) {
  if (format.block() == 1) {
    return {1, 31, 100, 600};  // 600: crosses a chunk
  }
  if (format.block() == 256) {
    return {256, 1280};
  }
  return {format.block(), 3 * format.block(), 1024 + format.block()};
}

TEST(NativeProduct, EveryFormatAndInstructionSetGivesTheBitsOfTheTwin) {
  ThreadPool pool(2);
  for (const TestFormat& format : AllFormats()) {
    for (const int n_in : SomeInputs(format)) {
      for (const int n_out : {1, 16, 39}) {
        const auto made = MakeRandomSource(format, n_out, n_in);
        const std::vector<float> x = RandomRows(17, n_in);
        const std::vector<float> expected = Twin(made->source, x, 17);
        for (const InstructionSet set : PresentSets()) {
          const NativeProduct product = MakeProduct({&made->source}, set, pool);
          for (const int n_rows : {1, 3, 13, 17}) {
            const std::size_t n = static_cast<std::size_t>(n_rows);
            const std::vector<float> some(x.begin(),
                                          x.begin() + static_cast<std::ptrdiff_t>(n) * n_in);
            ExpectSameBits(
                MultiplyRows(product, some, n_rows),
                {expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(n) * n_out},
                format.name + " " + std::string(Name(set)) + " " + std::to_string(n_rows) + "x" +
                    std::to_string(n_out) + "x" + std::to_string(n_in));
          }
        }
      }
    }
  }
}

TEST(NativeProduct, EveryNumberOfOutputsAndRowsGivesTheBitsOfTheTwin) {
  ThreadPool pool(1);
  for (const TestFormat& format : {GgufFormats()[1], GgufFormats()[3], FloatFormats()[2]}) {
    const std::vector<float> x = RandomRows(26, 96);
    for (int n_out = 1; n_out <= 40; ++n_out) {
      const auto made = MakeRandomSource(format, n_out, 96);
      const int n_rows = 1 + n_out * 7 % 26;
      const std::vector<float> some(x.begin(), x.begin() + n_rows * 96);
      const std::vector<float> expected = Twin(made->source, some, n_rows);
      for (const InstructionSet set : PresentSets()) {
        ExpectSameBits(MultiplyRows(MakeProduct({&made->source}, set, pool), some, n_rows),
                       expected, format.name);
      }
    }
  }
}

TEST(NativeProduct, ARowsBitsDependNeitherOnTheOtherRowsNorOnTheThreads) {
  constexpr int kRows = 1100;  // more than two super blocks
  for (const TestFormat& format : {GgufFormats()[0], GgufFormats()[6], FloatFormats()[1]}) {
    const int n_in = 1280;
    const auto made = MakeRandomSource(format, 50, n_in);
    const std::vector<float> x = RandomRows(kRows, n_in);
    for (const InstructionSet set : PresentSets()) {
      if (set == InstructionSet::kPlain) {
        continue;  // slow, and one row after another anyway
      }
      ThreadPool one(1);
      const std::vector<float> all = MultiplyRows(MakeProduct({&made->source}, set, one), x, kRows);
      for (const int n_threads : {2, 3}) {
        ThreadPool pool(n_threads);
        const NativeProduct product = MakeProduct({&made->source}, set, pool);
        ExpectSameBits(MultiplyRows(product, x, kRows), all, format.name + " threads");
        for (int row = 0; row < kRows; row += 97) {
          const std::vector<float> alone(x.begin() + row * n_in, x.begin() + (row + 1) * n_in);
          ExpectSameBits(MultiplyRows(product, alone, 1),
                         {all.begin() + row * 50, all.begin() + (row + 1) * 50},
                         format.name + " alone");
        }
      }
    }
  }
}

TEST(NativeProduct, StackedPartsOfDifferentFormatsKeepTheirOrderAndGetTheirBias) {
  ThreadPool pool(2);
  const auto q = MakeRandomSource(GgufFormats()[4], 40, 512, 1);
  const auto k = MakeRandomSource(GgufFormats()[6], 7, 512, 2);
  const auto v = MakeRandomSource(FloatFormats()[1], 21, 512, 3);
  const std::vector<float> x = RandomRows(15, 512);
  std::vector<float> bias(68);
  for (std::size_t i = 0; i < bias.size(); ++i) {
    bias[i] = static_cast<float>(i) * 0.25F - 8;
  }
  std::vector<float> expected;
  const std::vector<float> ys[] = {Twin(q->source, x, 15), Twin(k->source, x, 15),
                                   Twin(v->source, x, 15)};
  for (std::ptrdiff_t t = 0; t < 15; ++t) {
    for (const std::vector<float>& y : ys) {
      const std::ptrdiff_t n = static_cast<std::ptrdiff_t>(y.size()) / 15;
      expected.insert(expected.end(), y.begin() + t * n, y.begin() + (t + 1) * n);
    }
    for (std::size_t i = 0; i < 68; ++i) {
      expected[static_cast<std::size_t>(t) * 68 + i] += bias[i];
    }
  }
  for (const InstructionSet set : PresentSets()) {
    const NativeProduct product =
        MakeProduct({&q->source, &k->source, &v->source}, set, pool, bias);
    ExpectSameBits(MultiplyRows(product, x, 15), expected, "stacked");
  }
}

TEST(NativeProduct, RowsAreTakenInTheOrderThatTheSourceAsksFor) {
  ThreadPool pool(1);
  const auto made = MakeRandomSource(GgufFormats()[0], 24, 64);
  WeightSource turned = made->source;
  turned.source_row = [](int row) { return 23 - row; };
  const std::vector<float> x = RandomRows(1, 64);
  std::vector<float> y =
      MultiplyRows(MakeProduct({&made->source}, InstructionSet::kPlain, pool), x, 1);
  std::reverse(y.begin(), y.end());
  ExpectSameBits(MultiplyRows(MakeProduct({&turned}, InstructionSet::kPlain, pool), x, 1), y,
                 "turned");
}

TEST(NativeProduct, ZeroTinyAndUnfiniteInputsGiveZeroOrNanButNeverHarm) {
  ThreadPool pool(1);
  const auto made = MakeRandomSource(GgufFormats()[3], 16, 64);
  for (const InstructionSet set : PresentSets()) {
    const NativeProduct product = MakeProduct({&made->source}, set, pool);
    for (const float value : {0.0F, 1e-38F, 1e-44F}) {
      for (const float y : MultiplyRows(product, std::vector<float>(64, value), 1)) {
        EXPECT_EQ(y, 0.0F);
      }
    }
    for (const float value :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = RandomRows(2, 64);
      x[40] = value;
      const std::vector<float> y = MultiplyRows(product, x, 2);
      EXPECT_TRUE(std::isnan(y[0])) << value;
      EXPECT_FALSE(std::isnan(y[16])) << "the other row";
    }
  }
}

TEST(NativeProduct, AnEightBitFloatThatIsNanShowsInItsOutputsOnly) {
  ThreadPool pool(1);
  const auto made = MakeRandomSource(FloatFormats()[3], 20, 200);
  std::memset(made->data.data() + 3 * 200 + 150, 0xFF, 1);
  for (const InstructionSet set : PresentSets()) {
    const std::vector<float> y =
        MultiplyRows(MakeProduct({&made->source}, set, pool), RandomRows(2, 200), 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i % 20 == 3) << i;
    }
  }
}

TEST(NativeProduct, CopyRowGivesTheStoredValues) {
  ThreadPool pool(2);
  for (const TestFormat& format : AllFormats()) {
    const int n_in = format.block() == 1 ? 50 : 2 * format.block();
    const auto made = MakeRandomSource(format, 21, n_in);
    const NativeProduct product = MakeProduct({&made->source}, BestInstructionSet(), pool);
    const bool is_float = IsFloat(format.format);
    const Coding coding = is_float ? Coding{} : CodingOf(made->source);
    for (const int row : {0, 15, 16, 20}) {
      std::vector<float> expected(static_cast<std::size_t>(n_in));
      CodedRow coded(coding, is_float ? 0 : n_in);
      is_float ? DecodeFloatRow(made->source, row, expected.data())
               : DecodeRow(made->source, row, coded);
      for (std::size_t i = 0; !is_float && i < expected.size(); ++i) {
        const std::size_t g = i / static_cast<std::size_t>(coding.scale_group);
        const double bias = coding.affine ? double{coded.biases[g]} : 0.0;
        // Exact in double, but for float32 scales with far smaller biases: 24 + 8 bits there too.
        expected[i] =
            static_cast<float>(double{coded.scales[g]} * (coded.codes[i] - coding.zero) + bias);
      }
      std::vector<float> actual(static_cast<std::size_t>(n_in));
      product.CopyRow(row, actual.data());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_FLOAT_EQ(actual[i], expected[i]) << format.name;
      }
    }
  }
}

}  // namespace
}  // namespace ops::linear
