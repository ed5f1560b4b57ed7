#include "ops/gated_delta/kernels.h"

namespace ops {

const DeltaKernels& DeltaKernelsFor(InstructionSet /*set*/) { return kPlainDeltaKernels; }

}  // namespace ops
