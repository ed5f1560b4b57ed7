#include "ops/linear/packed_matrix.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <vector>

#include "ops/half.h"

namespace ops::linear {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t RoundUp(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t ScaleSize(ScaleKind kind) { return kind == ScaleKind::kF32 ? 4 : 2; }

std::size_t FloatSize(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 4;
    case WeightFormat::kF8E4M3:
      return 1;
    default:
      return 2;
  }
}

// What the kernels' E4M3 weights lack.
constexpr float kF8Factor = 0x1p8F;

std::size_t FloatScaleBlocks(int n_in) {
  return static_cast<std::size_t>((n_in + kFloatScaleBlock - 1) / kFloatScaleBlock);
}

void StoreScale(ScaleKind kind, float value, std::byte* at) {
  if (kind == ScaleKind::kF32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  // Exact: the value came out of 16 bits.
  const std::uint16_t bits =
      kind == ScaleKind::kBF16 ? FloatToBFloatExact(value) : FloatToHalf(value);
  std::memcpy(at, &bits, sizeof(bits));
}

// values[i] becomes element [i][channel] of a section.
void StoreScales(ScaleKind kind, const std::vector<float>& values, int channel,
                 std::byte* section) {
  const std::size_t size = ScaleSize(kind);
  for (std::size_t i = 0; i < values.size(); ++i) {
    StoreScale(kind, values[i], section + (i * kTile + static_cast<std::size_t>(channel)) * size);
  }
}

void StoreSubScales(const std::vector<std::int8_t>& values, int channel, std::byte* section) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    section[i * kTile + static_cast<std::size_t>(channel)] = static_cast<std::byte>(values[i]);
  }
}

// Place of input `i` of `channel` in a tile's codes.
struct CodePlace {
  std::size_t byte;
  unsigned shift;
};

CodePlace PlaceOf(int packed_bits, std::size_t i, int channel) {
  const std::size_t group = i / kGroup;
  const std::size_t in_group = i % kGroup;
  const std::size_t lane = 4 * static_cast<std::size_t>(channel);
  if (packed_bits == 4) {
    const std::size_t low = in_group % 16;
    return {.byte = group * 256 + low / 4 * 64 + lane + low % 4, .shift = in_group < 16 ? 0U : 4U};
  }
  return {.byte = group * 512 + in_group / 4 * 64 + lane + in_group % 4, .shift = 0};
}

std::uint8_t NumberOfFp4Code(std::uint8_t code) {
  return static_cast<std::uint8_t>(std::ranges::find(kFp4Codes, code) - std::begin(kFp4Codes));
}

float ReadFloat(WeightFormat format, const std::byte* at) {
  if (format == WeightFormat::kF32) {
    float value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  if (format == WeightFormat::kF8E4M3) {
    return DecodeF8(std::to_integer<std::uint8_t>(*at));
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return format == WeightFormat::kF16 ? HalfToFloat(bits) : BFloatToFloat(bits);
}

}  // namespace

AlignedBytes::AlignedBytes(std::size_t size)
    : data_(static_cast<std::byte*>(
          std::aligned_alloc(kAlignment, std::max(RoundUp(size), kAlignment)))),
      size_(size) {
  if (data_ == nullptr) {
    throw std::bad_alloc();
  }
}

PackedMatrix::PackedMatrix(const WeightSource& source, ThreadPool& pool)
    : format_(source.format),
      n_in_(source.n_in),
      n_out_(source.n_out),
      coding_(is_float() ? Coding{} : CodingOf(source)),
      layout_(MakeLayout()),
      memory_(layout_.size * static_cast<std::size_t>(n_tiles())) {
  pool.ParallelFor(n_tiles(), [&](int tile) {
    if (is_float()) {
      PackFloatTile(source, tile);
    } else {
      PackCodedTile(source, tile);
    }
  });
}

PackedMatrix::Layout PackedMatrix::MakeLayout() const {
  Layout layout;
  const std::size_t n_in = static_cast<std::size_t>(n_in_);
  if (is_float()) {
    if (format_ == WeightFormat::kF8E4M3) {
      layout.codes = RoundUp(FloatScaleBlocks(n_in_) * kTile * sizeof(float));
    }
    layout.size = layout.codes + RoundUp(n_in * kTile * FloatSize(format_));
    return layout;
  }
  const bool super = coding_.scale_kind == ScaleKind::kSuper;
  const std::size_t n_groups = n_in / static_cast<std::size_t>(coding_.scale_group);
  const std::size_t n_scales = super ? n_in / kSuperGroup : n_groups;
  const std::size_t scale_bytes = RoundUp(n_scales * kTile * ScaleSize(coding_.scale_kind));
  const std::size_t sub_bytes = super ? RoundUp(n_groups * kTile) : 0;
  layout.biases = scale_bytes;
  layout.sub_scales = layout.biases + (coding_.affine ? scale_bytes : 0);
  layout.sub_biases = layout.sub_scales + sub_bytes;
  layout.codes = layout.sub_biases + (coding_.affine ? sub_bytes : 0);
  layout.size = layout.codes + n_in / kGroup * static_cast<std::size_t>(group_bytes());
  return layout;
}

void PackedMatrix::PackFloatTile(const WeightSource& source, int tile) {
  std::byte* out = memory_.data() + static_cast<std::size_t>(tile) * layout_.size;
  std::memset(out, 0, layout_.size);
  const std::size_t size = FloatSize(format_);
  const int channels = std::min(kTile, n_out_ - tile * kTile);
  std::vector<std::byte> row;
  for (int channel = 0; channel < channels; ++channel) {
    const int out_row = tile * kTile + channel;
    const int stored = source.source_row ? source.source_row(out_row) : out_row;
    const std::byte* values =
        source.data.data() + static_cast<std::size_t>(stored) * StoredRowBytes(source);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n_in_); ++i) {
      std::memcpy(out + layout_.codes + (i * kTile + static_cast<std::size_t>(channel)) * size,
                  values + i * size, size);
    }
    if (format_ == WeightFormat::kF8E4M3) {
      PackFloatScales(source, out_row, out + static_cast<std::size_t>(channel) * sizeof(float));
    }
  }
}

void PackedMatrix::PackFloatScales(const WeightSource& source, int row, std::byte* scales) const {
  std::vector<float> values(static_cast<std::size_t>(n_in_));
  DecodeFloatRow(source, row, values.data());
  for (int first = 0; first < n_in_; first += kFloatScaleBlock) {
    const auto begin = values.begin() + first;
    const auto end = values.begin() + std::min(first + kFloatScaleBlock, n_in_);
    const bool any_nan = std::any_of(begin, end, [](float value) { return std::isnan(value); });
    const float scale = any_nan ? std::numeric_limits<float>::quiet_NaN()
                                : FloatScale(source, row, first) * kF8Factor;
    std::memcpy(scales, &scale, sizeof(scale));
    scales += kTile * sizeof(scale);
  }
}

const float* PackedMatrix::FloatScales(int tile, int first) const {
  return format_ == WeightFormat::kF8E4M3
             ? reinterpret_cast<const float*>(Tile(tile)) + first / kFloatScaleBlock * kTile
             : nullptr;
}

void PackedMatrix::PackCodedTile(const WeightSource& source, int tile) {
  std::byte* out = memory_.data() + static_cast<std::size_t>(tile) * layout_.size;
  std::memset(out, 0, layout_.size);
  CodedRow row(coding_, n_in_);
  const int channels = std::min(kTile, n_out_ - tile * kTile);
  for (int channel = 0; channel < channels; ++channel) {
    DecodeRow(source, tile * kTile + channel, row);
    PackChannel(row, out, channel);
  }
}

void PackedMatrix::PackChannel(const CodedRow& row, std::byte* tile, int channel) const {
  if (coding_.scale_kind == ScaleKind::kSuper) {
    StoreScales(ScaleKind::kF16, row.super_scales, channel, tile);
    StoreScales(ScaleKind::kF16, row.super_biases, channel, tile + layout_.biases);
    StoreSubScales(row.sub_scales, channel, tile + layout_.sub_scales);
    StoreSubScales(row.sub_biases, channel, tile + layout_.sub_biases);
  } else {
    StoreScales(coding_.scale_kind, row.scales, channel, tile);
    StoreScales(coding_.scale_kind, row.biases, channel, tile + layout_.biases);
  }
  std::byte* codes = tile + layout_.codes;
  const int bits = coding_.packed_bits();
  for (std::size_t i = 0; i < row.codes.size(); ++i) {
    const CodePlace place = PlaceOf(bits, i, channel);
    const std::uint8_t stored = coding_.fp4 ? NumberOfFp4Code(row.codes[i]) : row.codes[i];
    codes[place.byte] |= static_cast<std::byte>(stored) << place.shift;
  }
}

PackedScales PackedMatrix::Scales(int tile) const {
  const std::byte* at = Tile(tile);
  const bool super = coding_.scale_kind == ScaleKind::kSuper;
  return {
      .scales = at,
      .biases = coding_.affine ? at + layout_.biases : nullptr,
      .sub_scales = super ? reinterpret_cast<const std::int8_t*>(at + layout_.sub_scales) : nullptr,
      .sub_biases = super && coding_.affine
                        ? reinterpret_cast<const std::int8_t*>(at + layout_.sub_biases)
                        : nullptr,
  };
}

bool PackedMatrix::PointAtScales(int tile, int first_input, TileProduct& product) const {
  const bool super = coding_.scale_kind == ScaleKind::kSuper;
  if (coding_.scale_group != kGroup || (!super && coding_.scale_kind != ScaleKind::kF16)) {
    return false;
  }
  const PackedScales stored = Scales(tile);
  const std::ptrdiff_t first = first_input / kGroup * kTile;
  const std::ptrdiff_t first_half = super ? first_input / kSuperGroup * kTile : first;
  product.half_scales = reinterpret_cast<const std::uint16_t*>(stored.scales) + first_half;
  product.sub_scales = super ? stored.sub_scales + first : nullptr;
  if (coding_.affine) {
    product.half_biases = reinterpret_cast<const std::uint16_t*>(stored.biases) + first_half;
    product.sub_biases = super ? stored.sub_biases + first : nullptr;
  }
  return true;
}

const std::uint8_t* PackedMatrix::Codes(int tile) const {
  return reinterpret_cast<const std::uint8_t*>(Tile(tile) + layout_.codes);
}

void PackedMatrix::CopyRow(int row, float* out) const {
  assert(row >= 0 && row < n_out_);
  if (is_float()) {
    CopyFloatRow(row / kTile, row % kTile, out);
  } else {
    CopyCodedRow(row / kTile, row % kTile, out);
  }
}

void PackedMatrix::CopyFloatRow(int tile, int channel, float* out) const {
  const std::size_t size = FloatSize(format_);
  const std::byte* values = Floats(tile);
  for (int i = 0; i < n_in_; ++i) {
    out[i] = ReadFloat(format_, values + static_cast<std::size_t>(i * kTile + channel) * size);
    if (const float* scales = FloatScales(tile, i)) {
      out[i] *= scales[channel] / kF8Factor;
    }
  }
}

void PackedMatrix::CopyCodedRow(int tile, int channel, float* out) const {
  const std::uint8_t* codes = Codes(tile);
  const int bits = coding_.packed_bits();
  const unsigned mask = bits == 4 ? 0xFU : 0xFFU;
  const int step = std::min(coding_.scale_group, kGroup);  // inputs per expanded scale
  float scales[2 * kTile];
  float biases[2 * kTile] = {};
  for (int first = 0; first < n_in_; first += kGroup) {
    kPlainKernels.expand_scales(Scales(tile),
                                {.kind = coding_.scale_kind,
                                 .scale_group = coding_.scale_group,
                                 .first_input = first,
                                 .n_inputs = kGroup},
                                scales, biases);
    for (int j = 0; j < kGroup; ++j) {
      const CodePlace place = PlaceOf(bits, static_cast<std::size_t>(first + j), channel);
      const unsigned stored = (static_cast<unsigned>(codes[place.byte]) >> place.shift) & mask;
      const unsigned code = coding_.fp4 ? kFp4Codes[stored] : stored;
      const int scale = j / step * kTile + channel;
      // Without affine biases the sum is the exact product: + 0 changes nothing but the sign of
      // zero.
      out[first + j] =
          coding_.affine
              ? std::fma(scales[scale], static_cast<float>(code), biases[scale])
              : scales[scale] * static_cast<float>(static_cast<int>(code) - coding_.zero);
    }
  }
}

}  // namespace ops::linear
