#include "ops/attention/kernels_impl.h"
#include "ops/vector/vec16_neon.h"

namespace ops {

const AttentionKernels kNeonAttentionKernels = kAttentionKernels<Vec16Neon>;

}  // namespace ops
