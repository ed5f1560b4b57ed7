#include "ops/gated_delta/kernels_impl.h"
#include "ops/vector/vec16_avx512.h"

namespace ops {

const DeltaKernels kAvx512DeltaKernels = kDeltaKernels<Vec16Avx512>;

}  // namespace ops
