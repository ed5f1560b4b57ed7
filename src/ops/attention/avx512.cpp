#include "ops/attention/kernels_impl.h"
#include "ops/vector/vec16_avx512.h"

namespace ops {

const AttentionKernels kAvx512AttentionKernels = kAttentionKernels<Vec16Avx512>;

}  // namespace ops
