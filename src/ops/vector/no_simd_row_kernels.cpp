#include "ops/vector/row_kernels.h"

namespace ops {

const RowKernels& RowKernelsFor(InstructionSet /*set*/) { return kPlainRowKernels; }

}  // namespace ops
