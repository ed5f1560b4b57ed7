#include "ops/short_conv/kernels_impl.h"
#include "ops/vector/vec16_neon.h"

namespace ops {

const ConvKernels kNeonConvKernels = kConvKernels<Vec16Neon>;

}  // namespace ops
