#pragma once

#include <immintrin.h>

#include "ops/linear/kernels.h"

namespace ops::linear {

// The parts of kAvx512Kernels that lie in files of their own; contracts in kernels.h.
inline constexpr int kAvx512FloatRows = 12;

// kFp4Codes in each quarter, for vpshufb.
[[gnu::always_inline]] inline __m512i Fp4Table() {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kFp4Codes)));
}

void Avx512Quantize(const float* x, std::ptrdiff_t stride, int rows, int n_in,
                    const QuantizedBlock& out);
void Avx512ExpandScales(const PackedScales& packed, const ScaleRange& range, float* scales,
                        float* biases);
void Avx512ExpandCodes(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes);
void Avx512MultiplyFloat(int rows, const FloatProduct& product);

}  // namespace ops::linear
