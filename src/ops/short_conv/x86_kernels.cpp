#include "ops/short_conv/kernels.h"

namespace ops {

const ConvKernels& ConvKernelsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Vnni:
      return kAvx512ConvKernels;
    case InstructionSet::kAvx2:
      return kAvx2ConvKernels;
    default:
      return kPlainConvKernels;
  }
}

}  // namespace ops
