#include "ops/attention/kernels.h"

namespace ops {

const AttentionKernels& AttentionKernelsFor(InstructionSet /*set*/) {
  return kPlainAttentionKernels;
}

}  // namespace ops
