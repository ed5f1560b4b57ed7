// Int8 products with AVX-512 VNNI: a vector is four inputs of 16 channels (vpdpbusd).
#include <immintrin.h>

#include <array>
#include <cstring>

#include "ops/linear/avx512_parts.h"
#include "ops/linear/kernels.h"

namespace ops::linear {
namespace {

// Rows of a full block. Of the 32 registers each row takes two (dot, acc); 12 leave room for
// weights and scales.
constexpr int kRows = 12;

__m512i Broadcast(const std::int8_t* four) {
  std::int32_t bits = 0;
  std::memcpy(&bits, four, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

// dot[r] += vector (inputs 4 v .. 4 v + 3) * x of each row; x: [R][32].
template <int R>
[[gnu::always_inline]] inline void AddVector(__m512i weights, const std::int8_t* x, int v,
                                             __m512i* dot) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    dot[r] = _mm512_dpbusd_epi32(dot[r], weights, Broadcast(x + r * kGroup + 4 * v));
  }
}

__m512 Load16(const float* values) { return _mm512_loadu_ps(values); }
__m512 Load16(const std::uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}

__m512 Load16(const std::int8_t* bytes) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}

// The scale of group `g`, or its bias when given those pointers.
template <ScaleForm kForm>
[[gnu::always_inline]] inline __m512 ScaleOf(const float* values, const std::uint16_t* halves,
                                             const std::int8_t* subs, int g) {
  if constexpr (kForm == ScaleForm::kFloat) {
    return Load16(values + g * kTile);
  } else if constexpr (kForm == ScaleForm::kHalf) {
    return Load16(halves + g * kTile);
  } else {
    return _mm512_mul_ps(Load16(halves + g / kSuperGroups * kTile), Load16(subs + g * kTile));
  }
}

template <int R>
[[gnu::always_inline]] inline void AddScaled(const __m512i* dot, __m512 scale,
                                             const float* x_scales, __m512* acc) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]),
                             _mm512_mul_ps(scale, _mm512_set1_ps(x_scales[r])), acc[r]);
  }
}

template <int R>
[[gnu::always_inline]] inline void Start(const std::int32_t* offsets, __m512i* dot) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    dot[r] = _mm512_set1_epi32(offsets[r]);
  }
}

// 64 nibbles as codes.
template <int kStored>
[[gnu::always_inline]] inline __m512i CodesOf(__m512i nibbles) {
  return kStored == kFp4 ? _mm512_shuffle_epi8(Fp4Table(), nibbles) : nibbles;
}

template <int R, int kStored>
[[gnu::always_inline]] inline void AddGroup(const std::uint8_t* codes, const std::int8_t* x,
                                            __m512i* dot) {
  if constexpr (kStored == 8) {
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      AddVector<R>(_mm512_loadu_si512(codes + 64 * v), x, v, dot);
    }
  } else {
    const __m512i nibble = _mm512_set1_epi8(0xF);
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) {
      const __m512i both = _mm512_loadu_si512(codes + 64 * v);
      AddVector<R>(CodesOf<kStored>(_mm512_and_si512(both, nibble)), x, v, dot);
      AddVector<R>(CodesOf<kStored>(_mm512_and_si512(_mm512_srli_epi16(both, 4), nibble)), x, v + 4,
                   dot);
    }
  }
}

template <int R>
[[gnu::always_inline]] inline void AddTwoHalves(const TileProduct& p, int g, __m512* acc) {
  const std::uint8_t* codes = p.codes + 512 * g;
  const std::int8_t* x = p.x + g * R * kGroup;
  __m512i dot[R];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    Start<R>(p.offsets + (2 * g + half) * R, dot);
#pragma GCC unroll 8
    for (int v = 4 * half; v < 4 * half + 4; ++v) {
      AddVector<R>(_mm512_loadu_si512(codes + 64 * v), x, v, dot);
    }
    AddScaled<R>(dot, Load16(p.scales + (2 * g + half) * kTile), p.x_scales + g * R, acc);
  }
}

template <int R, Product kProduct, int kStored, ScaleForm kForm>
void Run(const TileProduct& p) {
  __m512 acc[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    acc[r] = p.fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(p.acc + r * p.acc_stride);
  }
  for (int g = 0; g < p.n_groups; ++g) {
    FetchNext(p, g);
    if constexpr (kProduct == Product::kSymmetric16) {
      AddTwoHalves<R>(p, g, acc);
      continue;
    }
    __m512i dot[R];
    Start<R>(p.offsets + g * R, dot);
    AddGroup<R, kStored>(p.codes + 64 * StoredBits(kStored) * g, p.x + g * R * kGroup, dot);
    AddScaled<R>(dot, ScaleOf<kForm>(p.scales, p.half_scales, p.sub_scales, g), p.x_scales + g * R,
                 acc);
    if constexpr (kProduct == Product::kAffine) {
      const __m512 bias = ScaleOf<kForm>(p.biases, p.half_biases, p.sub_biases, g);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        acc[r] = _mm512_fmadd_ps(bias, _mm512_set1_ps(p.x_sums[g * R + r]), acc[r]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm512_storeu_ps(p.acc + r * p.acc_stride, acc[r]);
  }
}

using RunFunction = void (*)(const TileProduct&);

template <Product kProduct, int kStored, ScaleForm kForm, int... kIndex>
constexpr std::array<RunFunction, sizeof...(kIndex)> MakeTable(
    std::integer_sequence<int, kIndex...>) {
  return {&Run<kIndex + 1, kProduct, kStored, kForm>...};
}

template <Product kProduct, int kStored, ScaleForm kForm>
constexpr auto kTable =
    MakeTable<kProduct, kStored, kForm>(std::make_integer_sequence<int, kRows>());

template <Product kProduct, int kStored>
RunFunction Choose(int rows, const TileProduct& p) {
  const auto index = static_cast<std::size_t>(rows - 1);
  switch (ScaleFormOf(p)) {
    case ScaleForm::kSuper:
      return kTable<kProduct, kStored, ScaleForm::kSuper>[index];
    case ScaleForm::kHalf:
      return kTable<kProduct, kStored, ScaleForm::kHalf>[index];
    default:
      return kTable<kProduct, kStored, ScaleForm::kFloat>[index];
  }
}

void Multiply(int rows, const TileProduct& p) {
  const auto index = static_cast<std::size_t>(rows - 1);
  if (p.fp4 && p.stored_bits == 4) {
    kTable<Product::kSymmetric, kFp4, ScaleForm::kFloat>[index](p);
  } else if (p.product == Product::kSymmetric16) {
    kTable<Product::kSymmetric16, 8, ScaleForm::kFloat>[index](p);
  } else if (p.product == Product::kAffine) {
    (p.stored_bits == 4 ? Choose<Product::kAffine, 4>(rows, p)
                        : Choose<Product::kAffine, 8>(rows, p))(p);
  } else {
    (p.stored_bits == 4 ? Choose<Product::kSymmetric, 4>(rows, p)
                        : Choose<Product::kSymmetric, 8>(rows, p))(p);
  }
}

int CodeBias(int /*code_bits*/) { return 0; }

}  // namespace

const Kernels kAvx512Kernels = {
    .coded_rows = kRows,
    .float_rows = kAvx512FloatRows,
    .code_bias = &CodeBias,
    .quantize = &Avx512Quantize,
    .expand_scales = &Avx512ExpandScales,
    .expand_codes = &Avx512ExpandCodes,
    .multiply = &Multiply,
    .multiply_float = &Avx512MultiplyFloat,
};

}  // namespace ops::linear
