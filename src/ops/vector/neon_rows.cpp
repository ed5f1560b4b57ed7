#include "ops/vector/row_kernels_impl.h"
#include "ops/vector/vec16_neon.h"

namespace ops {

const RowKernels kNeonRowKernels = kRowKernels<Vec16Neon>;

}  // namespace ops
