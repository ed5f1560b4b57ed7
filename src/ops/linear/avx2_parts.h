#pragma once

#include <immintrin.h>

#include "ops/linear/kernels.h"

namespace ops::linear {

// The parts of kAvx2Kernels that lie in files of their own; contracts in kernels.h.
inline constexpr int kAvx2FloatRows = 6;

// kFp4Codes in both halves, for vpshufb.
[[gnu::always_inline]] inline __m256i Fp4Table() {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kFp4Codes)));
}

void Avx2Quantize(const float* x, std::ptrdiff_t stride, int rows, int n_in,
                  const QuantizedBlock& out);
void Avx2ExpandScales(const PackedScales& packed, const ScaleRange& range, float* scales,
                      float* biases);
void Avx2ExpandCodes(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes);
void Avx2MultiplyFloat(int rows, const FloatProduct& product);

}  // namespace ops::linear
