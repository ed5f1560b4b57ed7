#include "ops/vector/row_kernels.h"

namespace ops {

const RowKernels& RowKernelsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Vnni:
      return kAvx512RowKernels;
    case InstructionSet::kAvx2:
      return kAvx2RowKernels;
    default:
      return kPlainRowKernels;
  }
}

}  // namespace ops
