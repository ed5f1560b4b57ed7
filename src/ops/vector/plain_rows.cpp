#include "ops/vector/row_kernels_impl.h"
#include "ops/vector/vec16_plain.h"

namespace ops {

const RowKernels kPlainRowKernels = kRowKernels<Vec16Plain>;

}  // namespace ops
