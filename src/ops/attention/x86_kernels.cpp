#include "ops/attention/kernels.h"

namespace ops {

const AttentionKernels& AttentionKernelsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Vnni:
      return kAvx512AttentionKernels;
    case InstructionSet::kAvx2:
      return kAvx2AttentionKernels;
    default:
      return kPlainAttentionKernels;
  }
}

}  // namespace ops
