#include "ops/vector/row_kernels_impl.h"
#include "ops/vector/vec16_avx512.h"

namespace ops {

const RowKernels kAvx512RowKernels = kRowKernels<Vec16Avx512>;

}  // namespace ops
