#include "ops/gated_delta/kernels_impl.h"
#include "ops/vector/vec16_plain.h"

namespace ops {

const DeltaKernels kPlainDeltaKernels = kDeltaKernels<Vec16Plain>;

}  // namespace ops
