#include "ops/short_conv/kernels.h"

namespace ops {

const ConvKernels& ConvKernelsFor(InstructionSet set) {
  return set == InstructionSet::kNeon ? kNeonConvKernels : kPlainConvKernels;
}

}  // namespace ops
