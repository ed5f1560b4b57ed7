#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu_features.h"
#include "ops/linear/coding.h"

namespace ops::linear {

// Output channels of a tile: one 512-bit vector of int32 or float32.
inline constexpr int kTile = 16;
// Most rows that any kernel computes together.
inline constexpr int kMaxRows = 12;

// One row block of activations, rounded to int8. R rows side by side, so that a kernel walks one
// stream:
struct QuantizedBlock {
  std::int8_t* codes = nullptr;  // [n_in / 32][R][32]
  float* scales = nullptr;       // [n_in / 32][R], max|x| / 127 of the 32
  float* scaled_sums = nullptr;  // [n_in / 32][R], scale * float(sum of the 32 codes)
  std::int32_t* sums = nullptr;  // [n_in / 16][R], of 16 codes
};

// Scales of one tile as they are stored, [scale group][16] each.
struct PackedScales {
  const std::byte* scales = nullptr;  // ScaleKind's type; kSuper: f16 super scales [n_in / 256][16]
  const std::byte* biases = nullptr;  // affine only; likewise
  const std::int8_t* sub_scales = nullptr;  // kSuper only
  const std::int8_t* sub_biases = nullptr;  // kSuper and affine only
};

// Which scale groups to expand: those of inputs [first_input, first_input + n_inputs), multiples
// of 32.
struct ScaleRange {
  ScaleKind kind = ScaleKind::kF16;
  int scale_group = 32;
  int first_input = 0;
  int n_inputs = 0;
};

enum class Product : std::uint8_t {
  kSymmetric,    // one scale per 32 inputs
  kSymmetric16,  // one scale per 16 inputs
  kAffine,       // scale and bias per 32 inputs
};

// A tile's inputs times a row block. For each row r and channel c, over the groups g in ascending
// order:
//   dot = offsets[g][r] + sum of (code - code_bias) * x          exact int32, |dot| < 2^24
//   acc = fma(float(dot), scales[g][c] * x_scales[g][r], acc)
//   acc = fma(biases[g][c], x_sums[g][r], acc)                   kAffine only
// kSymmetric16 has two halves of a group, each with its own offset and scale, added in order.
// Every kernel does these operations, each rounded as written: all instruction sets give the same
// bits.
struct TileProduct {
  Product product = Product::kSymmetric;
  int code_bits = 8;                    // upper bound of the codes, 2 to 8
  int stored_bits = 8;                  // 4: as packed; 8: one byte a code
  bool fp4 = false;                     // what is packed are numbers of kFp4Codes
  int n_groups = 0;                     // groups of 32 inputs
  const std::uint8_t* codes = nullptr;  // [n_groups][256 or 512 bytes]
  const float* scales = nullptr;        // [n_groups (x 2)][16]
  const float* biases = nullptr;        // [n_groups][16]
  // Instead of the two where they are not null: as they are stored. Never kSymmetric16.
  const std::uint16_t* half_scales = nullptr;  // binary16 [n_groups][16]
  const std::uint16_t* half_biases = nullptr;  // likewise
  // With them, where not null: a scale is half_scales[g / 8] * sub_scales[g], a bias likewise.
  const std::int8_t* sub_scales = nullptr;  // [n_groups][16]
  const std::int8_t* sub_biases = nullptr;  // [n_groups][16]
  const std::int8_t* x = nullptr;           // [n_groups][R][32]
  const float* x_scales = nullptr;          // [n_groups][R]
  const float* x_sums = nullptr;            // [n_groups][R]
  const std::int32_t* offsets =
      nullptr;           // [n_groups (x 2)][R]: (code_bias - zero) * sum of x codes
  float* acc = nullptr;  // row r, channel c at acc[r * acc_stride + c]
  std::ptrdiff_t acc_stride = 0;
  bool fresh = true;  // start from 0 instead of from *acc
  // What is read after this, or null: fetched into the cache meanwhile, next_lines * 64 bytes a
  // group. A single row block waits for memory otherwise.
  const std::byte* next = nullptr;
  int next_lines = 0;
};

// What a kernel does at the start of group `g` about TileProduct::next.
inline void FetchNext(const TileProduct& p, int g) {
  for (int line = g * p.next_lines; line < (g + 1) * p.next_lines; ++line) {
    __builtin_prefetch(p.next + static_cast<std::ptrdiff_t>(line) * 64);
  }
}

// How the kernels are told at compile time what is stored: the bits of a code, 8 or 4, or this for
// 4-bit numbers of kFp4Codes.
inline constexpr int kFp4 = -4;
constexpr int StoredBits(int stored) { return stored == kFp4 ? 4 : stored; }

// Groups under one super scale.
inline constexpr int kSuperGroups = kSuperGroup / kGroup;

// Where a kernel finds scales and biases.
enum class ScaleForm : std::uint8_t { kFloat, kHalf, kSuper };

inline ScaleForm ScaleFormOf(const TileProduct& p) {
  if (p.half_scales == nullptr) {
    return ScaleForm::kFloat;
  }
  return p.sub_scales == nullptr ? ScaleForm::kHalf : ScaleForm::kSuper;
}

// Float weights (kF8E4M3: times 2^-8, which makes its bits those of a half): acc = fma(x, w, acc)
// over the inputs in ascending order.
struct FloatProduct {
  WeightFormat format = WeightFormat::kF32;  // kF32, kF16, kBF16 or kF8E4M3
  int n_in = 0;
  const std::byte* weights = nullptr;  // [n_in][16] in `format`
  const float* x = nullptr;            // [n_in][R]
  float* acc = nullptr;                // row r, channel c at acc[r * acc_stride + c]
  std::ptrdiff_t acc_stride = 0;
  bool fresh = true;  // start from 0 instead of from *acc
};

// The kernels of one instruction set.
struct Kernels {
  int coded_rows;  // R of a full block of quantised rows, <= kMaxRows; any smaller R is allowed too
  int float_rows;  // the same for float weights

  // What the kernel subtracts from codes of this width by itself (see TileProduct).
  int (*code_bias)(int code_bits);

  // x: `rows` rows of n_in floats, `stride` apart.
  void (*quantize)(const float* x, std::ptrdiff_t stride, int rows, int n_in,
                   const QuantizedBlock& out);

  // Values of 16 channels as float32, [n_inputs / max(32, ...)]: one row of 16 per 32 inputs, or
  // per 16 where scale_group is 16. `biases` may be null.
  void (*expand_scales)(const PackedScales& packed, const ScaleRange& range, float* scales,
                        float* biases);

  // Packed 4-bit codes, or numbers of kFp4Codes, to one byte each.
  void (*expand_codes)(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes);

  void (*multiply)(int rows, const TileProduct& product);
  void (*multiply_float)(int rows, const FloatProduct& product);
};

// REQUIRES: the machine has the set. Sets without kernels of their own get the plain ones.
[[nodiscard]] const Kernels& KernelsFor(InstructionSet set);

// A file each.
extern const Kernels kPlainKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

}  // namespace ops::linear
