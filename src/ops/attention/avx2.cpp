#include "ops/attention/kernels_impl.h"
#include "ops/vector/vec16_avx2.h"

namespace ops {

const AttentionKernels kAvx2AttentionKernels = kAttentionKernels<Vec16Avx2>;

}  // namespace ops
