#include "ops/linear/coding.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>
#include <mlx/types/half_types.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <span>
#include <sstream>

#include "ops/half.h"
#include "ops/linear/test_sources.h"
#include "test_paths.h"

namespace ops::linear {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// What the scales, zeros and biases make of a decoded row.
std::vector<float> Values(const CodedRow& row, const Coding& coding) {
  std::vector<float> values;
  for (std::size_t i = 0; i < row.codes.size(); ++i) {
    const std::size_t g = i / static_cast<std::size_t>(coding.scale_group);
    values.push_back(coding.affine
                         ? std::fma(row.scales[g], static_cast<float>(row.codes[i]), row.biases[g])
                         : row.scales[g] * static_cast<float>(row.codes[i] - coding.zero));
  }
  return values;
}

// testdata/make_gguf_rows.py wrote the file from what the gguf Python package computes.
TEST(Coding, GgufBlocksDecodeToWhatTheGgufPackageComputes) {
  const std::map<std::string, WeightFormat> formats = {
      {"Q4_0", WeightFormat::kQ4_0},     {"Q4_1", WeightFormat::kQ4_1},
      {"Q5_0", WeightFormat::kQ5_0},     {"Q8_0", WeightFormat::kQ8_0},
      {"Q4_K", WeightFormat::kQ4_K},     {"Q5_K", WeightFormat::kQ5_K},
      {"Q6_K", WeightFormat::kQ6_K},     {"Q5_1", WeightFormat::kQ5_1},
      {"Q2_K", WeightFormat::kQ2_K},     {"Q3_K", WeightFormat::kQ3_K},
      {"IQ4_NL", WeightFormat::kIQ4_NL}, {"IQ4_XS", WeightFormat::kIQ4_XS},
      {"MXFP4", WeightFormat::kMxfp4}};
  std::ifstream file(EMBERBANK_SOURCE_DIR "/src/ops/linear/testdata/gguf_rows.txt");
  std::string line;
  std::size_t n_lines = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::string blocks;
    std::string values;
    int n_in = 0;
    words >> name >> n_in >> blocks >> values;
    const std::vector<std::byte> data = FromHex(blocks);
    const std::vector<std::byte> expected_bytes = FromHex(values);
    const WeightSource source{
        .name = name, .format = formats.at(name), .n_out = 1, .n_in = n_in, .data = data};
    ASSERT_TRUE(CheckSource(source).has_value()) << name;
    const Coding coding = CodingOf(source);
    CodedRow row(coding, n_in);
    DecodeRow(source, 0, row);
    const std::vector<float> actual = Values(row, coding);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      float expected = 0;
      std::memcpy(&expected, expected_bytes.data() + 4 * i, 4);
      ASSERT_EQ(actual[i], expected) << name << " value " << i;
    }
    ++n_lines;
  }
  EXPECT_EQ(n_lines, formats.size());
}

TEST(Coding, MlxAffineRowsDecodeToWhatMlxDequantizes) {
  for (const TestFormat& format : MlxFormats()) {
    const auto made = MakeRandomSource(format, 3, 256);
    const WeightSource& source = made->source;
    const int n_words = 256 * format.bits / 32;
    const auto to_array = [&](const std::vector<std::byte>& bytes) {
      std::vector<float> values(bytes.size() / (format.scale_format == ScaleFormat::kF32 ? 4 : 2));
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + 2 * i, 2);
        values[i] =
            format.scale_format == ScaleFormat::kF16 ? HalfToFloat(bits) : BFloatToFloat(bits);
        if (format.scale_format == ScaleFormat::kF32) {
          std::memcpy(&values[i], bytes.data() + 4 * i, 4);
        }
      }
      return mlx::core::array(values.data(), {3, 256 / format.group_size});
    };
    const mlx::core::array words(reinterpret_cast<const std::uint32_t*>(made->data.data()),
                                 {3, n_words});
    mlx::core::array expected = mlx::core::dequantize(
        words, to_array(made->scales), to_array(made->biases), format.group_size, format.bits);
    expected.eval();
    const Coding coding = CodingOf(source);
    CodedRow row(coding, 256);
    for (int r = 0; r < 3; ++r) {
      DecodeRow(source, r, row);
      const std::vector<float> actual = Values(row, coding);
      for (int i = 0; i < 256; ++i) {
        // MLX may round scale * code before it adds the bias.
        const float want = expected.data<float>()[r * 256 + i];
        const float product = row.scales[static_cast<std::size_t>(i / format.group_size)] * 255.0F;
        ASSERT_NEAR(actual[static_cast<std::size_t>(i)], want, std::fabs(product) * 0x1p-23F)
            << format.name << " " << i;
      }
    }
  }
}

TEST(Coding, MlxMxfp4RowsDecodeToWhatMlxDequantizes) {
  const auto made = MakeRandomSource(MlxMxfp4()[0], 3, 256);
  const mlx::core::array words(reinterpret_cast<const std::uint32_t*>(made->data.data()),
                               {3, 256 / 8});
  const mlx::core::array scales(reinterpret_cast<const std::uint8_t*>(made->scales.data()),
                                {3, 256 / 32});
  mlx::core::array expected = mlx::core::astype(
      mlx::core::dequantize(words, scales, std::nullopt, 32, 4, "mxfp4"), mlx::core::float32);
  expected.eval();
  std::vector<float> actual(256);
  for (int r = 0; r < 3; ++r) {
    DecodeValues(made->source, r, actual.data());
    for (int i = 0; i < 256; ++i) {
      ASSERT_EQ(actual[static_cast<std::size_t>(i)], expected.data<float>()[r * 256 + i]) << i;
    }
  }
}

TEST(Coding, EightBitFloatsDecodeAsMlxDecodesThem) {
  std::vector<std::uint8_t> all(256);
  std::iota(all.begin(), all.end(), std::uint8_t{0});
  mlx::core::array expected =
      mlx::core::from_fp8(mlx::core::array(all.data(), {256}), mlx::core::float32);
  expected.eval();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((i & 0x7F) == 0x7F) {
      ASSERT_TRUE(std::isnan(DecodeF8(all[i])));
    } else {
      ASSERT_EQ(DecodeF8(all[i]), expected.data<float>()[i]) << i;
    }
  }
}

TEST(Coding, EightBitFloatsAreMultipliedWithTheScaleOfTheirBlock) {
  constexpr int kRows = 130;
  constexpr int kInputs = 200;
  const std::vector<std::byte> ones(std::size_t{kRows} * kInputs, std::byte{0x38});
  const float scales[] = {1, 2, 3, 4};
  const WeightSource source{.name = "w",
                            .format = WeightFormat::kF8E4M3,
                            .n_out = kRows,
                            .n_in = kInputs,
                            .data = ones,
                            .scales = std::as_bytes(std::span(scales))};
  ASSERT_TRUE(CheckSource(source).has_value());
  std::vector<float> row(kInputs);
  for (const int r : {0, 127, 128, 129}) {
    DecodeValues(source, r, row.data());
    EXPECT_EQ(row[127], r < 128 ? 1 : 3);
    EXPECT_EQ(row[128], r < 128 ? 2 : 4);
  }
  WeightSource wrong = source;
  wrong.scales = wrong.scales.subspan(4);
  EXPECT_EQ(CheckSource(wrong).error().message,
            "The scales of tensor `w` [130, 200] should have 16 bytes, but have 12.");
}

TEST(Coding, HalvesConvertAsMlxConvertsThem) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = HalfToFloat(half);
    const float expected = static_cast<float>(std::bit_cast<mlx::core::float16_t>(half));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(FloatToHalf(value), half);
    if ((bits & 0x7FFFU) < 0x7BFFU) {  // half-way to the next one: to the even one
      const auto next = static_cast<std::uint16_t>(half + 1);
      const float middle = (value + HalfToFloat(next)) / 2;
      ASSERT_EQ(FloatToHalf(middle), (half & 1U) == 0 ? half : next) << bits;
    }
  }
  EXPECT_EQ(HalfToFloat(FloatToHalf(65519.0F)), 65504.0F);
  EXPECT_TRUE(std::isinf(HalfToFloat(FloatToHalf(65520.0F))));
}

TEST(Coding, WrongSizesAreRefusedWithTheTensorsNameAndBothNumbers) {
  const auto made = MakeRandomSource(GgufFormats()[0], 4, 64);
  WeightSource source = made->source;
  source.name = "blk.0.attn_q.weight";
  source.n_out = 5;
  Result<void> checked = CheckSource(source);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::kBadModel);
  EXPECT_EQ(
      checked.error().message,
      "The values of tensor `blk.0.attn_q.weight` [5, 64] should have 180 bytes, but have 144.");
  source.n_out = 4;
  source.n_in = 72;
  EXPECT_EQ(CheckSource(source).error().message,
            "Tensor `blk.0.attn_q.weight` has rows of 72 values, which is no multiple of its block "
            "size 32.");
  source.n_in = 64;
  source.source_row = [](int row) { return row + 1; };
  EXPECT_EQ(CheckSource(source).error().message,
            "Row 4 of tensor `blk.0.attn_q.weight` is asked for, but it has 4 rows.");
}

TEST(Coding, MlxNumbersThatMlxDoesNotHaveAreRefused) {
  const auto made = MakeRandomSource(MlxFormats()[0], 4, 256);
  WeightSource source = made->source;
  source.bits = 7;
  EXPECT_FALSE(CheckSource(source).has_value());
  source.bits = 2;
  source.group_size = 48;
  EXPECT_FALSE(CheckSource(source).has_value());
  source.group_size = 32;
  EXPECT_TRUE(CheckSource(source).has_value());
  source.biases = source.biases.first(source.biases.size() - 1);
  EXPECT_FALSE(CheckSource(source).has_value());
}

}  // namespace
}  // namespace ops::linear
