// MLX's formats: a row is one little-endian bit stream of codes (mlx/ops.cpp, `quantize`).
#include <cstring>

#include "ops/half.h"
#include "ops/linear/coding.h"

namespace ops::linear {
namespace {

float ReadScale(std::span<const std::byte> values, ScaleFormat format, std::size_t index) {
  if (format == ScaleFormat::kF32) {
    float value = 0;
    std::memcpy(&value, values.data() + 4 * index, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, values.data() + 2 * index, sizeof(bits));
  return format == ScaleFormat::kF16 ? HalfToFloat(bits) : BFloatToFloat(bits);
}

void DecodeMxfp4Row(const std::uint8_t* bytes, const std::byte* exponents, CodedRow& out) {
  for (std::size_t i = 0; i < out.codes.size(); i += 2, ++bytes) {
    out.codes[i] = kFp4Codes[*bytes & 0xFU];
    out.codes[i + 1] = kFp4Codes[*bytes >> 4U];
  }
  for (std::size_t g = 0; g < out.scales.size(); ++g) {
    out.scales[g] = Fp4Scale(static_cast<std::uint8_t>(exponents[g]));
  }
}

}  // namespace

void DecodeMlxRow(const WeightSource& source, int stored_row, CodedRow& out) {
  const std::size_t row = static_cast<std::size_t>(stored_row);
  const auto* bytes =
      reinterpret_cast<const std::uint8_t*>(source.data.data()) + row * StoredRowBytes(source);
  if (source.format == WeightFormat::kMlxMxfp4) {
    DecodeMxfp4Row(bytes, source.scales.data() + row * out.scales.size(), out);
    return;
  }
  const unsigned bits = static_cast<unsigned>(source.bits);
  // Eight codes fill `bits` whole bytes.
  for (std::size_t i = 0; i < out.codes.size(); i += 8, bytes += bits) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes, bits);
    for (unsigned j = 0; j < 8; ++j) {
      out.codes[i + j] = static_cast<std::uint8_t>((eight >> (bits * j)) & ((1U << bits) - 1U));
    }
  }
  const std::size_t n_groups = out.scales.size();
  for (std::size_t g = 0; g < n_groups; ++g) {
    out.scales[g] = ReadScale(source.scales, source.scale_format, row * n_groups + g);
    out.biases[g] = ReadScale(source.biases, source.scale_format, row * n_groups + g);
  }
}

}  // namespace ops::linear
