#include "ops/short_conv/kernels.h"

namespace ops {

const ConvKernels& ConvKernelsFor(InstructionSet /*set*/) { return kPlainConvKernels; }

}  // namespace ops
