#include "ops/linear/coding.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/half.h"

namespace ops::linear {
namespace {

// Stored blocks of a format; the GGUF ones as in ggml-common.h.
struct BlockSize {
  int inputs;
  int bytes;
};

BlockSize BlockOf(const WeightSource& source) {
  switch (source.format) {
    case WeightFormat::kF32:
      return {.inputs = 1, .bytes = 4};
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return {.inputs = 1, .bytes = 2};
    case WeightFormat::kQ4_0:
      return {.inputs = 32, .bytes = 18};
    case WeightFormat::kQ4_1:
      return {.inputs = 32, .bytes = 20};
    case WeightFormat::kQ5_0:
      return {.inputs = 32, .bytes = 22};
    case WeightFormat::kQ5_1:
      return {.inputs = 32, .bytes = 24};
    case WeightFormat::kQ8_0:
      return {.inputs = 32, .bytes = 34};
    case WeightFormat::kQ2_K:
      return {.inputs = 256, .bytes = 84};
    case WeightFormat::kQ3_K:
      return {.inputs = 256, .bytes = 110};
    case WeightFormat::kQ4_K:
      return {.inputs = 256, .bytes = 144};
    case WeightFormat::kQ5_K:
      return {.inputs = 256, .bytes = 176};
    case WeightFormat::kQ6_K:
      return {.inputs = 256, .bytes = 210};
    case WeightFormat::kIQ4_NL:
      return {.inputs = 32, .bytes = 18};
    case WeightFormat::kIQ4_XS:
      return {.inputs = 256, .bytes = 136};
    case WeightFormat::kMxfp4:
      return {.inputs = 32, .bytes = 17};
    case WeightFormat::kMlxMxfp4:
      return {.inputs = 32, .bytes = 16};
    case WeightFormat::kF8E4M3:
      return {.inputs = 1, .bytes = 1};
    case WeightFormat::kMlxAffine:
      return {.inputs = source.group_size, .bytes = source.group_size * source.bits / 8};
  }
  return {.inputs = 1, .bytes = 0};
}

Coding SymmetricF16(int code_bits, int zero) {
  return {.code_bits = code_bits,
          .scale_group = 32,
          .affine = false,
          .zero = zero,
          .scale_kind = ScaleKind::kF16};
}

ScaleKind KindOf(ScaleFormat format) {
  switch (format) {
    case ScaleFormat::kF32:
      return ScaleKind::kF32;
    case ScaleFormat::kF16:
      return ScaleKind::kF16;
    case ScaleFormat::kBF16:
      return ScaleKind::kBF16;
  }
  return ScaleKind::kF32;
}

Result<void> CheckMlxNumbers(const WeightSource& source) {
  const bool bits_known = source.bits == 2 || source.bits == 3 || source.bits == 4 ||
                          source.bits == 5 || source.bits == 6 || source.bits == 8;
  if (!bits_known) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("Tensor `{}` is quantised to {} bits; supported are 2, 3, 4, 5, 6 and 8.",
                    source.name, source.bits));
  }
  if (source.group_size != 32 && source.group_size != 64 && source.group_size != 128) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("Tensor `{}` is quantised in groups of {}; supported are 32, 64 and 128.",
                    source.name, source.group_size));
  }
  return {};
}

Result<void> CheckSpan(const WeightSource& source, const char* what, std::size_t actual,
                       std::size_t row_bytes) {
  const std::size_t expected = row_bytes * static_cast<std::size_t>(source.n_out);
  // With a row order the stored rows may be more than those taken; DecodeRow's rows are checked one
  // by one.
  const bool fits =
      source.source_row ? row_bytes > 0 && actual % row_bytes == 0 : actual == expected;
  if (fits) {
    return {};
  }
  return Fail(ErrorCode::kBadModel,
              fmt::format("The {} of tensor `{}` [{}, {}] should have {} bytes, but have {}.", what,
                          source.name, source.n_out, source.n_in, expected, actual));
}

Result<void> CheckRowOrder(const WeightSource& source) {
  const std::size_t stored_rows = source.data.size() / StoredRowBytes(source);
  for (int row = 0; source.source_row && row < source.n_out; ++row) {
    const int stored = source.source_row(row);
    if (stored < 0 || static_cast<std::size_t>(stored) >= stored_rows) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("Row {} of tensor `{}` is asked for, but it has {} rows.", stored,
                              source.name, stored_rows));
    }
  }
  return {};
}

// Scale blocks that cover n rows or columns.
std::size_t Blocks(std::size_t n) {
  constexpr std::size_t kBlock = kFloatScaleBlock;
  return (n + kBlock - 1) / kBlock;
}

Result<void> CheckScales(const WeightSource& source, std::size_t expected) {
  if (source.scales.size() == expected) {
    return {};
  }
  return Fail(ErrorCode::kBadModel,
              fmt::format("The scales of tensor `{}` [{}, {}] should have {} bytes, but have {}.",
                          source.name, source.n_out, source.n_in, expected, source.scales.size()));
}

std::size_t ScaleBytes(ScaleFormat format) { return format == ScaleFormat::kF32 ? 4 : 2; }

std::size_t StoredRow(const WeightSource& source, int row) {
  return static_cast<std::size_t>(source.source_row ? source.source_row(row) : row);
}

}  // namespace

bool IsFloat(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kF16 ||
         format == WeightFormat::kBF16 || format == WeightFormat::kF8E4M3;
}

Coding CodingOf(const WeightSource& source) {
  switch (source.format) {
    case WeightFormat::kQ4_0:
      return SymmetricF16(4, 8);
    case WeightFormat::kQ5_0:
      return SymmetricF16(5, 16);
    case WeightFormat::kQ4_1:
      return {.code_bits = 4, .scale_group = 32, .affine = true, .scale_kind = ScaleKind::kF16};
    case WeightFormat::kQ5_1:
      return {.code_bits = 5, .scale_group = 32, .affine = true, .scale_kind = ScaleKind::kF16};
    // The kernels for groups of 16 read one byte a code: more bits than there are make it so.
    case WeightFormat::kQ2_K:
      return {.code_bits = 6, .scale_group = 16, .affine = true, .scale_kind = ScaleKind::kSuper};
    case WeightFormat::kQ3_K:
      return {.code_bits = 6,
              .scale_group = 16,
              .affine = false,
              .zero = 4,
              .scale_kind = ScaleKind::kSuper};
    case WeightFormat::kQ4_K:
      return {.code_bits = 4, .scale_group = 32, .affine = true, .scale_kind = ScaleKind::kSuper};
    case WeightFormat::kQ5_K:
      return {.code_bits = 5, .scale_group = 32, .affine = true, .scale_kind = ScaleKind::kSuper};
    case WeightFormat::kQ6_K:
      return {.code_bits = 6,
              .scale_group = 16,
              .affine = false,
              .zero = 32,
              .scale_kind = ScaleKind::kSuper};
    // The codes are the table's values themselves, as in Q8_0.
    case WeightFormat::kIQ4_NL:
      return SymmetricF16(8, 128);
    case WeightFormat::kIQ4_XS:
      return {.code_bits = 8,
              .scale_group = 32,
              .affine = false,
              .zero = 128,
              .scale_kind = ScaleKind::kSuper};
    case WeightFormat::kMxfp4:
    case WeightFormat::kMlxMxfp4:
      return {.code_bits = 5,
              .scale_group = 32,
              .affine = false,
              .zero = kFp4Zero,
              .scale_kind = ScaleKind::kBF16,
              .fp4 = true};
    case WeightFormat::kMlxAffine:
      return {.code_bits = source.bits,
              .scale_group = source.group_size,
              .affine = true,
              .scale_kind = KindOf(source.scale_format)};
    default:
      return SymmetricF16(8, 128);  // Q8_0
  }
}

std::size_t StoredRowBytes(const WeightSource& source) {
  const BlockSize block = BlockOf(source);
  return static_cast<std::size_t>(source.n_in / block.inputs) *
         static_cast<std::size_t>(block.bytes);
}

Result<void> CheckSource(const WeightSource& source) {
  if (source.n_out <= 0 || source.n_in <= 0) {
    return Fail(ErrorCode::kBadModel, fmt::format("Tensor `{}` has the empty shape [{}, {}].",
                                                  source.name, source.n_out, source.n_in));
  }
  const bool mlx = source.format == WeightFormat::kMlxAffine;
  if (mlx) {
    if (Result<void> ok = CheckMlxNumbers(source); !ok) {
      return ok;
    }
  }
  if (const int inputs = BlockOf(source).inputs; source.n_in % inputs != 0) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("Tensor `{}` has rows of {} values, which is no multiple of its block size {}.",
                    source.name, source.n_in, inputs));
  }
  if (Result<void> ok = CheckSpan(source, "values", source.data.size(), StoredRowBytes(source));
      !ok) {
    return ok;
  }
  const std::size_t rows = source.data.size() / StoredRowBytes(source);
  if (source.format == WeightFormat::kMlxMxfp4) {
    if (Result<void> ok = CheckScales(source, rows * static_cast<std::size_t>(source.n_in / 32));
        !ok) {
      return ok;
    }
  }
  if (source.format == WeightFormat::kF8E4M3) {
    const std::size_t scales =
        Blocks(rows) * Blocks(static_cast<std::size_t>(source.n_in)) * sizeof(float);
    if (Result<void> ok = CheckScales(source, scales); !ok) {
      return ok;
    }
  }
  if (mlx) {
    const std::size_t bytes =
        static_cast<std::size_t>(source.n_in / source.group_size) * ScaleBytes(source.scale_format);
    const std::size_t stored_rows = source.data.size() / StoredRowBytes(source);
    if (source.scales.size() != bytes * stored_rows ||
        source.biases.size() != bytes * stored_rows) {
      return Fail(
          ErrorCode::kBadModel,
          fmt::format(
              "The scales and biases of tensor `{}` [{}, {}] should have {} bytes each, but "
              "have {} and {}.",
              source.name, source.n_out, source.n_in, bytes * stored_rows, source.scales.size(),
              source.biases.size()));
    }
  }
  return CheckRowOrder(source);
}

CodedRow::CodedRow(const Coding& coding, int n_in)
    : codes(static_cast<std::size_t>(n_in)),
      scales(static_cast<std::size_t>(n_in / coding.scale_group)),
      biases(coding.affine ? scales.size() : 0) {
  if (coding.scale_kind == ScaleKind::kSuper) {
    super_scales.resize(static_cast<std::size_t>(n_in / kSuperGroup));
    super_biases.resize(coding.affine ? super_scales.size() : 0);
    sub_scales.resize(scales.size());
    sub_biases.resize(biases.size());
  }
}

void DecodeRow(const WeightSource& source, int row, CodedRow& out) {
  const std::size_t stored = StoredRow(source, row);
  if (source.format == WeightFormat::kMlxAffine || source.format == WeightFormat::kMlxMxfp4) {
    DecodeMlxRow(source, static_cast<int>(stored), out);
    return;
  }
  DecodeGgufRow(source.format, source.data.data() + stored * StoredRowBytes(source), source.n_in,
                out);
}

void DecodeFloatRow(const WeightSource& source, int row, float* out) {
  const std::byte* stored = source.data.data() + StoredRow(source, row) * StoredRowBytes(source);
  const std::size_t n_in = static_cast<std::size_t>(source.n_in);
  if (source.format == WeightFormat::kF32) {
    std::memcpy(out, stored, n_in * sizeof(float));
    return;
  }
  if (source.format == WeightFormat::kF8E4M3) {
    for (std::size_t i = 0; i < n_in; ++i) {
      constexpr std::size_t kBlock = kFloatScaleBlock;
      out[i] = DecodeF8(static_cast<std::uint8_t>(stored[i])) *
               FloatScale(source, row, static_cast<int>(i / kBlock * kBlock));
    }
    return;
  }
  for (std::size_t i = 0; i < n_in; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, stored + 2 * i, sizeof(bits));
    out[i] = source.format == WeightFormat::kF16 ? HalfToFloat(bits) : BFloatToFloat(bits);
  }
}

float DecodeF8(std::uint8_t bits) {
  const std::uint32_t magnitude = bits & 0x7FU;
  if (magnitude == 0x7FU) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  // Exponent and mantissa in binary32's places; the product moves the exponent's bias from 7 to 127
  // and makes subnormals right.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120F;
  return (bits & 0x80U) != 0 ? -value : value;
}

float FloatScale(const WeightSource& source, int row, int first) {
  constexpr std::size_t kBlock = kFloatScaleBlock;
  const std::size_t index =
      StoredRow(source, row) / kBlock * Blocks(static_cast<std::size_t>(source.n_in)) +
      static_cast<std::size_t>(first) / kBlock;
  float scale = 0;
  std::memcpy(&scale, source.scales.data() + index * sizeof(scale), sizeof(scale));
  return scale;
}

float Fp4Scale(std::uint8_t exponent) {
  constexpr int kBias = 127;
  return exponent == 0xFF ? std::numeric_limits<float>::quiet_NaN()
                          : std::ldexp(0.5F, exponent - kBias);
}

void DecodeValues(const WeightSource& source, int row, float* out) {
  if (IsFloat(source.format)) {
    DecodeFloatRow(source, row, out);
    return;
  }
  const Coding coding = CodingOf(source);
  CodedRow coded(coding, source.n_in);
  DecodeRow(source, row, coded);
  for (std::size_t i = 0; i < coded.codes.size(); ++i) {
    const std::size_t group = i / static_cast<std::size_t>(coding.scale_group);
    const float scale = coded.scales[group];
    out[i] = coding.affine
                 ? std::fma(scale, static_cast<float>(coded.codes[i]), coded.biases[group])
                 : scale * static_cast<float>(coded.codes[i] - coding.zero);
  }
}

}  // namespace ops::linear
