#include "ops/attention/kernels_impl.h"
#include "ops/vector/vec16_plain.h"

namespace ops {

const AttentionKernels kPlainAttentionKernels = kAttentionKernels<Vec16Plain>;

}  // namespace ops
