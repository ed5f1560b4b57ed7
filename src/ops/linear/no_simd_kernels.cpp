#include "ops/linear/kernels.h"

namespace ops::linear {

const Kernels& KernelsFor(InstructionSet /*set*/) { return kPlainKernels; }

}  // namespace ops::linear
