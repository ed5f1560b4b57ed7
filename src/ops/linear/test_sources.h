#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/half.h"
#include "ops/linear/coding.h"

namespace ops::linear {

// A random matrix in a stored format, for tests, with the memory that its spans point to.
struct RandomSource {
  WeightSource source;
  std::vector<std::byte> data, scales, biases;
};

struct TestFormat {
  std::string name;
  WeightFormat format = WeightFormat::kF32;
  int bits = 0;  // kMlxAffine
  int group_size = 0;
  ScaleFormat scale_format = ScaleFormat::kF16;

  // n_in must be a multiple of this.
  [[nodiscard]] int block() const {
    switch (format) {
      case WeightFormat::kF32:
      case WeightFormat::kF16:
      case WeightFormat::kBF16:
      case WeightFormat::kF8E4M3:
        return 1;
      case WeightFormat::kQ4_K:
      case WeightFormat::kQ5_K:
      case WeightFormat::kQ6_K:
      case WeightFormat::kQ2_K:
      case WeightFormat::kQ3_K:
      case WeightFormat::kIQ4_XS:
        return 256;
      case WeightFormat::kMlxAffine:
        return group_size;
      default:
        return 32;
    }
  }
};

inline std::vector<TestFormat> GgufFormats() {
  return {{"q4_0", WeightFormat::kQ4_0},     {"q4_1", WeightFormat::kQ4_1},
          {"q5_0", WeightFormat::kQ5_0},     {"q8_0", WeightFormat::kQ8_0},
          {"q4_k", WeightFormat::kQ4_K},     {"q5_k", WeightFormat::kQ5_K},
          {"q6_k", WeightFormat::kQ6_K},     {"q5_1", WeightFormat::kQ5_1},
          {"q2_k", WeightFormat::kQ2_K},     {"q3_k", WeightFormat::kQ3_K},
          {"iq4_nl", WeightFormat::kIQ4_NL}, {"iq4_xs", WeightFormat::kIQ4_XS},
          {"mxfp4", WeightFormat::kMxfp4}};
}

inline std::vector<TestFormat> FloatFormats() {
  return {{"f32", WeightFormat::kF32},
          {"f16", WeightFormat::kF16},
          {"bf16", WeightFormat::kBF16},
          {"f8_e4m3", WeightFormat::kF8E4M3}};
}

inline std::vector<TestFormat> MlxFormats() {
  std::vector<TestFormat> formats;
  const ScaleFormat scale_formats[] = {ScaleFormat::kF32, ScaleFormat::kF16, ScaleFormat::kBF16};
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      const ScaleFormat scale_format =
          scale_formats[static_cast<std::size_t>(bits + group / 32) % 3];
      formats.push_back({"mlx" + std::to_string(bits) + "g" + std::to_string(group),
                         WeightFormat::kMlxAffine, bits, group, scale_format});
    }
  }
  return formats;
}

inline std::vector<TestFormat> MlxMxfp4() { return {{"mlx_mxfp4", WeightFormat::kMlxMxfp4}}; }

inline std::vector<TestFormat> AllFormats() {
  std::vector<TestFormat> all = GgufFormats();
  for (const auto& more : {MlxFormats(), MlxMxfp4(), FloatFormats()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

inline void PutFloat(std::vector<std::byte>& bytes, std::size_t at, ScaleFormat format,
                     float value) {
  if (format == ScaleFormat::kF32) {
    std::memcpy(bytes.data() + at, &value, 4);
    return;
  }
  const std::uint16_t bits =
      format == ScaleFormat::kF16 ? FloatToHalf(value) : FloatToBFloatExact(value);
  std::memcpy(bytes.data() + at, &bits, 2);
}

// Offsets of the f16 scales in a GGUF block.
inline std::vector<std::size_t> ScalesInBlock(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return {0, 2};
    case WeightFormat::kQ2_K:
      return {80, 82};
    case WeightFormat::kQ3_K:
      return {108};
    case WeightFormat::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

inline void FillFloats(std::vector<std::byte>& bytes, ScaleFormat format, float sigma,
                       std::mt19937& random) {
  std::normal_distribution<float> normal(0, sigma);
  const std::size_t size = format == ScaleFormat::kF32 ? 4 : 2;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    PutFloat(bytes, at, format, normal(random));
  }
}

// Formats whose codes are all values: no NaN among them, scales of a usual size.
inline void FillScaledCodes(RandomSource& made, std::mt19937& random) {
  const WeightSource& source = made.source;
  const auto rows = static_cast<std::size_t>(source.n_out);
  const auto exponent = [&] { return static_cast<std::byte>(119 + random() % 5); };
  if (source.format == WeightFormat::kMxfp4) {
    for (std::size_t at = 0; at < made.data.size(); at += 17) {
      made.data[at] = exponent();
    }
  } else if (source.format == WeightFormat::kMlxMxfp4) {
    made.scales.resize(made.data.size() / 16);
    std::ranges::generate(made.scales, exponent);
  } else {
    for (std::byte& byte : made.data) {
      byte = (byte & std::byte{0x7F}) == std::byte{0x7F} ? std::byte{0x38} : byte;
    }
    constexpr std::size_t kBlock = kFloatScaleBlock;
    made.scales.resize((rows + kBlock - 1) / kBlock *
                       ((static_cast<std::size_t>(source.n_in) + kBlock - 1) / kBlock) * 4);
    FillFloats(made.scales, ScaleFormat::kF32, 0.01F, random);
  }
}

// The spans point into the result: it must not be copied.
inline std::unique_ptr<RandomSource> MakeRandomSource(const TestFormat& format, int n_out, int n_in,
                                                      unsigned seed = 1) {
  std::mt19937 random(seed);
  auto made = std::make_unique<RandomSource>();
  WeightSource& source = made->source;
  source = {.name = format.name, .format = format.format, .n_out = n_out, .n_in = n_in};
  source.bits = format.bits;
  source.group_size = format.group_size;
  source.scale_format = format.scale_format;
  made->data.resize(StoredRowBytes(source) * static_cast<std::size_t>(n_out));
  for (std::byte& byte : made->data) {
    byte = static_cast<std::byte>(random());
  }
  if (format.format == WeightFormat::kF8E4M3 || format.format == WeightFormat::kMlxMxfp4 ||
      format.format == WeightFormat::kMxfp4) {
    FillScaledCodes(*made, random);
  } else if (IsFloat(format.format)) {
    const ScaleFormat as = format.format == WeightFormat::kF32   ? ScaleFormat::kF32
                           : format.format == WeightFormat::kF16 ? ScaleFormat::kF16
                                                                 : ScaleFormat::kBF16;
    FillFloats(made->data, as, 0.5F, random);
  } else if (format.format == WeightFormat::kMlxAffine) {
    const std::size_t n_groups =
        static_cast<std::size_t>(n_out) * static_cast<std::size_t>(n_in / format.group_size);
    made->scales.resize(n_groups * (format.scale_format == ScaleFormat::kF32 ? 4 : 2));
    made->biases.resize(made->scales.size());
    FillFloats(made->scales, format.scale_format, 0.05F, random);
    FillFloats(made->biases, format.scale_format, 0.5F, random);
  } else {
    std::normal_distribution<float> normal(0, 0.05F);
    const std::size_t block_bytes =
        StoredRowBytes(source) / static_cast<std::size_t>(n_in / format.block());
    for (std::size_t at = 0; at < made->data.size(); at += block_bytes) {
      for (const std::size_t scale : ScalesInBlock(format.format)) {
        PutFloat(made->data, at + scale, ScaleFormat::kF16, normal(random));
      }
    }
  }
  source.data = made->data;
  source.scales = made->scales;
  source.biases = made->biases;
  return made;
}

inline std::vector<float> RandomRows(int n_rows, int n_in, unsigned seed = 2) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(n_in));
  for (float& value : x) {
    value = normal(random) * (random() % 97 == 0 ? 30.0F : 1.0F);  // outliers, as activations have
  }
  return x;
}

}  // namespace ops::linear
