#include "ops/vector/row_kernels_impl.h"
#include "ops/vector/vec16_avx2.h"

namespace ops {

const RowKernels kAvx2RowKernels = kRowKernels<Vec16Avx2>;

}  // namespace ops
