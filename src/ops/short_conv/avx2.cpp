#include "ops/short_conv/kernels_impl.h"
#include "ops/vector/vec16_avx2.h"

namespace ops {

const ConvKernels kAvx2ConvKernels = kConvKernels<Vec16Avx2>;

}  // namespace ops
