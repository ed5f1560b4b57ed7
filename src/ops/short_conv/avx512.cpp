#include "ops/short_conv/kernels_impl.h"
#include "ops/vector/vec16_avx512.h"

namespace ops {

const ConvKernels kAvx512ConvKernels = kConvKernels<Vec16Avx512>;

}  // namespace ops
