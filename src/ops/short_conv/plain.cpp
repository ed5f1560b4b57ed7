#include "ops/short_conv/kernels_impl.h"
#include "ops/vector/vec16_plain.h"

namespace ops {

const ConvKernels kPlainConvKernels = kConvKernels<Vec16Plain>;

}  // namespace ops
