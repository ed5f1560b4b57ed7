#include "ops/gated_delta/kernels_impl.h"
#include "ops/vector/vec16_avx2.h"

namespace ops {

const DeltaKernels kAvx2DeltaKernels = kDeltaKernels<Vec16Avx2>;

}  // namespace ops
