#include "ops/gated_delta/kernels_impl.h"
#include "ops/vector/vec16_neon.h"

namespace ops {

const DeltaKernels kNeonDeltaKernels = kDeltaKernels<Vec16Neon>;

}  // namespace ops
