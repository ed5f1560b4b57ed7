// Int8 products with AVX2: a vector is four inputs of 8 channels. vpmaddubsw adds two products of
// an unsigned code and a signed activation in 16 bits, and saturates; so codes of up to 6 bits are
// summed in 16 bits only as long as they fit (8 * 15 * 2 * 127 = 30480, 4 * 31 * 2 * 127 = 31496, 2
// * 63 * 2 * 127 = 32004), and wider ones become signed (code - 128) and go in as |w| * sign(w) x
// (128 * 2 * 127 = 32512).
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "ops/linear/avx2_parts.h"
#include "ops/linear/kernels.h"

namespace ops::linear {
namespace {

// Of the 16 registers each row takes two (16-bit or 32-bit sum, acc); 6 leave room for weights and
// activations.
constexpr int kRows = 6;
constexpr int kLanes = 8;

// Vectors whose products are added in 16 bits; 0: signed codes, none.
constexpr int StepsOf(int code_bits) {
  return code_bits <= 4 ? 8 : code_bits == 5 ? 4 : code_bits == 6 ? 2 : 0;
}

__m256i Broadcast(const std::int8_t* four) {
  std::int32_t bits = 0;
  std::memcpy(&bits, four, sizeof(bits));
  return _mm256_set1_epi32(bits);
}

__m256i Load(const std::uint8_t* codes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
}

// Vector v of a group, one byte a code. `codes`: of the group, moved to the half of 8 channels.
template <int kStored>
[[gnu::always_inline]] inline __m256i Weights(const std::uint8_t* codes, int v) {
  if constexpr (kStored == 8) {
    return Load(codes + 64 * v);
  } else {
    const __m256i both = Load(codes + 64 * (v % 4));
    const __m256i nibbles =
        _mm256_and_si256(v < 4 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(0xF));
    return kStored == kFp4 ? _mm256_shuffle_epi8(Fp4Table(), nibbles) : nibbles;
  }
}

// dot[r] = vectors [kFirst, kEnd) of a group times x of each row; x: [R][32].
template <int R, int kSteps, int kStored, int kFirst, int kEnd>
[[gnu::always_inline]] inline void AddVectors(const std::uint8_t* codes, const std::int8_t* x,
                                              __m256i* dot) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum[R];
#pragma GCC unroll 8
  for (int v = kFirst; v < kEnd; ++v) {
    __m256i weights = Weights<kStored>(codes, v);
    if constexpr (kSteps == 0) {
      const __m256i with_sign = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
      weights = _mm256_abs_epi8(with_sign);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m256i signed_x = _mm256_sign_epi8(Broadcast(x + r * kGroup + 4 * v), with_sign);
        const __m256i four = _mm256_madd_epi16(_mm256_maddubs_epi16(weights, signed_x), ones);
        dot[r] = v == kFirst ? four : _mm256_add_epi32(dot[r], four);
      }
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const __m256i pairs = _mm256_maddubs_epi16(weights, Broadcast(x + r * kGroup + 4 * v));
        sum[r] = v % kSteps == 0 ? pairs : _mm256_add_epi16(sum[r], pairs);
        if (v % kSteps == kSteps - 1) {
          const __m256i four = _mm256_madd_epi16(sum[r], ones);
          dot[r] = v - kFirst < kSteps ? four : _mm256_add_epi32(dot[r], four);
        }
      }
    }
  }
}

__m256 Load8(const float* values) { return _mm256_loadu_ps(values); }
__m256 Load8(const std::uint16_t* halves) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
}

__m256 Load8(const std::int8_t* bytes) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))));
}

// The scales of group `g` and 8 channels from `lane` on, or the biases when given those pointers.
template <ScaleForm kForm>
[[gnu::always_inline]] inline __m256 ScaleOf(const float* values, const std::uint16_t* halves,
                                             const std::int8_t* subs, int g, int lane) {
  if constexpr (kForm == ScaleForm::kFloat) {
    return Load8(values + g * kTile + lane);
  } else if constexpr (kForm == ScaleForm::kHalf) {
    return Load8(halves + g * kTile + lane);
  } else {
    return _mm256_mul_ps(Load8(halves + g / kSuperGroups * kTile + lane),
                         Load8(subs + g * kTile + lane));
  }
}

template <int R>
[[gnu::always_inline]] inline void AddScaled(const __m256i* dot, const std::int32_t* offsets,
                                             __m256 scale, const float* x_scales, __m256* acc) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    // The offset last: as a start value it would hold a register all along.
    const __m256i sum = _mm256_add_epi32(dot[r], _mm256_set1_epi32(offsets[r]));
    acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                             _mm256_mul_ps(scale, _mm256_set1_ps(x_scales[r])), acc[r]);
  }
}

// One group of the 8 channels from `lane` on.
template <int R, Product kProduct, int kSteps, int kStored, ScaleForm kForm>
[[gnu::always_inline]] inline void AddGroup(const TileProduct& p, int g, int lane, __m256* acc) {
  const std::uint8_t* codes = p.codes + 64 * StoredBits(kStored) * g + 4 * lane;
  const std::int8_t* x = p.x + g * R * kGroup;
  __m256i dot[R];
  if constexpr (kProduct == Product::kSymmetric16) {
    AddVectors<R, kSteps, kStored, 0, 4>(codes, x, dot);
    AddScaled<R>(dot, p.offsets + 2 * g * R, Load8(p.scales + 2 * g * kTile + lane),
                 p.x_scales + g * R, acc);
    AddVectors<R, kSteps, kStored, 4, 8>(codes, x, dot);
    AddScaled<R>(dot, p.offsets + (2 * g + 1) * R, Load8(p.scales + (2 * g + 1) * kTile + lane),
                 p.x_scales + g * R, acc);
  } else {
    AddVectors<R, kSteps, kStored, 0, 8>(codes, x, dot);
    AddScaled<R>(dot, p.offsets + g * R,
                 ScaleOf<kForm>(p.scales, p.half_scales, p.sub_scales, g, lane), p.x_scales + g * R,
                 acc);
  }
  if constexpr (kProduct == Product::kAffine) {
    const __m256 bias = ScaleOf<kForm>(p.biases, p.half_biases, p.sub_biases, g, lane);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      acc[r] = _mm256_fmadd_ps(bias, _mm256_set1_ps(p.x_sums[g * R + r]), acc[r]);
    }
  }
}

template <int R, Product kProduct, int kSteps, int kStored, ScaleForm kForm>
void Run(const TileProduct& p) {
  for (int lane = 0; lane < kTile; lane += kLanes) {
    __m256 acc[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      acc[r] = p.fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(p.acc + r * p.acc_stride + lane);
    }
    for (int g = 0; g < p.n_groups; ++g) {
      if (lane == 0) {
        FetchNext(p, g);
      }
      AddGroup<R, kProduct, kSteps, kStored, kForm>(p, g, lane, acc);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      _mm256_storeu_ps(p.acc + r * p.acc_stride + lane, acc[r]);
    }
  }
}

using RunFunction = void (*)(const TileProduct&);

template <Product kProduct, int kSteps, int kStored, ScaleForm kForm, int... kIndex>
constexpr std::array<RunFunction, sizeof...(kIndex)> MakeTable(
    std::integer_sequence<int, kIndex...>) {
  return {&Run<kIndex + 1, kProduct, kSteps, kStored, kForm>...};
}

template <Product kProduct, int kSteps, int kStored, ScaleForm kForm>
constexpr auto kTable =
    MakeTable<kProduct, kSteps, kStored, kForm>(std::make_integer_sequence<int, kRows>());

template <Product kProduct, ScaleForm kForm>
RunFunction Choose(std::size_t index, int code_bits, int stored_bits) {
  switch (StepsOf(code_bits)) {
    case 8:
      return stored_bits == 4 ? kTable<kProduct, 8, 4, kForm>[index]
                              : kTable<kProduct, 8, 8, kForm>[index];
    case 4:
      return kTable<kProduct, 4, 8, kForm>[index];
    case 2:
      return kTable<kProduct, 2, 8, kForm>[index];
    default:
      return kTable<kProduct, 0, 8, kForm>[index];
  }
}

template <Product kProduct>
RunFunction Choose(std::size_t index, const TileProduct& p) {
  switch (ScaleFormOf(p)) {
    case ScaleForm::kSuper:
      return Choose<kProduct, ScaleForm::kSuper>(index, p.code_bits, p.stored_bits);
    case ScaleForm::kHalf:
      return Choose<kProduct, ScaleForm::kHalf>(index, p.code_bits, p.stored_bits);
    default:
      return Choose<kProduct, ScaleForm::kFloat>(index, p.code_bits, p.stored_bits);
  }
}

void Multiply(int rows, const TileProduct& p) {
  const std::size_t index = static_cast<std::size_t>(rows - 1);
  if (p.fp4 && p.stored_bits == 4) {
    return kTable<Product::kSymmetric, StepsOf(5), kFp4, ScaleForm::kFloat>[index](p);
  }
  switch (p.product) {
    case Product::kSymmetric16:  // Q6_K only
      return kTable<Product::kSymmetric16, 2, 8, ScaleForm::kFloat>[index](p);
    case Product::kAffine:
      return Choose<Product::kAffine>(index, p)(p);
    case Product::kSymmetric:
      return Choose<Product::kSymmetric>(index, p)(p);
  }
}

int CodeBias(int code_bits) { return StepsOf(code_bits) == 0 ? 128 : 0; }

}  // namespace

const Kernels kAvx2Kernels = {
    .coded_rows = kRows,
    .float_rows = kAvx2FloatRows,
    .code_bias = &CodeBias,
    .quantize = &Avx2Quantize,
    .expand_scales = &Avx2ExpandScales,
    .expand_codes = &Avx2ExpandCodes,
    .multiply = &Multiply,
    .multiply_float = &Avx2MultiplyFloat,
};

}  // namespace ops::linear
