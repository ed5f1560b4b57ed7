#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ops/linear/weight_source.h"

namespace ops::linear {

// Inputs that share one activation scale, and the grain of all quantised kernels.
inline constexpr int kGroup = 32;
// Inputs under one super scale of the K formats.
inline constexpr int kSuperGroup = 256;

// How the scales of a coded matrix are kept.
enum class ScaleKind : std::uint8_t {
  kF16,
  kBF16,
  kF32,
  kSuper,  // K formats: f16 per 256 inputs times int8 per group; the float32 product is exact
};

// What the stored formats have in common: a weight is scale * (code - zero), or scale * code + bias
// when affine, with one scale (and bias) per `scale_group` inputs of a row.
struct Coding {
  int code_bits = 8;     // 2 to 8: codes are in [0, 2^code_bits)
  int scale_group = 32;  // 16, 32, 64 or 128
  bool affine = false;
  int zero = 0;  // not affine only
  ScaleKind scale_kind = ScaleKind::kF16;
  bool fp4 = false;  // the codes are those of kFp4Codes, and are packed as their numbers there

  [[nodiscard]] int packed_bits() const { return code_bits <= 4 || fp4 ? 4 : 8; }
};

// E2M1's values 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, doubled, with the zero point 12.
inline constexpr std::uint8_t kFp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                               12, 11, 10, 9,  8,  6,  4,  0};
inline constexpr int kFp4Zero = 12;

// Weights that share one scale of kF8E4M3, along rows and columns.
inline constexpr int kFloatScaleBlock = 128;

// Formats whose weights are multiplied as floats.
[[nodiscard]] bool IsFloat(WeightFormat format);

// REQUIRES: not IsFloat(source.format), and CheckSource accepted it.
[[nodiscard]] Coding CodingOf(const WeightSource& source);

// Bytes of one stored row of `data`. REQUIRES: as above, floats too.
[[nodiscard]] std::size_t StoredRowBytes(const WeightSource& source);

// kBadModel, naming the part, when sizes and spans do not fit together.
[[nodiscard]] Result<void> CheckSource(const WeightSource& source);

// One row in the common form.
struct CodedRow {
  std::vector<std::uint8_t> codes;  // [n_in]
  std::vector<float> scales;        // [n_in / scale_group]
  std::vector<float> biases;        // same, affine only
  // kSuper only: scale = super_scale * sub_scale, bias = super_bias * sub_bias.
  std::vector<float> super_scales;      // [n_in / 256]
  std::vector<float> super_biases;      // affine only
  std::vector<std::int8_t> sub_scales;  // [n_in / scale_group]
  std::vector<std::int8_t> sub_biases;  // affine only

  // Sizes everything for rows of `coding`.
  CodedRow(const Coding& coding, int n_in);
};

// Decodes output row `row` (source_row applied) of a quantised source.
void DecodeRow(const WeightSource& source, int row, CodedRow& out);

// Row `row` of a float source as float32, n_in values; kF8E4M3 with its scales, the product
// rounded.
void DecodeFloatRow(const WeightSource& source, int row, float* out);

// The value of an E4M3 byte; its NaN is NaN.
[[nodiscard]] float DecodeF8(std::uint8_t bits);
// kF8E4M3: the scale of inputs [first, first + 128) of output row `row`. REQUIRES: first is a
// multiple of 128.
[[nodiscard]] float FloatScale(const WeightSource& source, int row, int first);

// Row `row` of any source as float32, n_in values: scale * (code - zero), or fma(scale, code,
// bias).
void DecodeValues(const WeightSource& source, int row, float* out);

// Parts of DecodeRow, a file each. `stored`: the row's first byte.
void DecodeGgufRow(WeightFormat format, const std::byte* stored, int n_in, CodedRow& out);
void DecodeMlxRow(const WeightSource& source, int stored_row, CodedRow& out);

// What the codes of MXFP4 are multiplied with: half of E8M0's power of 2; NaN is NaN.
[[nodiscard]] float Fp4Scale(std::uint8_t exponent);

}  // namespace ops::linear
