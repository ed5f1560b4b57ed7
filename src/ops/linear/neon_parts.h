#pragma once

#include "ops/linear/kernels.h"

namespace ops::linear {

// The parts of kNeonKernels that lie in a file of their own; contracts in kernels.h.
inline constexpr int kNeonFloatRows = 4;

void NeonQuantize(const float* x, std::ptrdiff_t stride, int rows, int n_in,
                  const QuantizedBlock& out);
void NeonExpandScales(const PackedScales& packed, const ScaleRange& range, float* scales,
                      float* biases);
void NeonExpandCodes(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes);
void NeonMultiplyFloat(int rows, const FloatProduct& product);

}  // namespace ops::linear
