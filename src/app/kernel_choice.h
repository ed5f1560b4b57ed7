#pragma once

#include <string>

#include "app/options.h"
#include "base/result.h"
#include "ops/context.h"
#include "ops/cpu_features.h"

namespace app {

// What computes.
struct KernelChoice {
  ops::KernelPath path = ops::KernelPath::kNative;
  ops::InstructionSet instruction_set = ops::InstructionSet::kPlain;
  int threads = 1;
};

// From EMBERBANK_KERNELS=reference|native, the processor, and `threads` (0: physical cores). Probes
// the processor: must run before other threads change signal handlers. Errors (kInvalidRequest):
// another value of the variable.
[[nodiscard]] Result<KernelChoice> ChooseKernels(const Environment& environment, int threads);

// "AVX-512 VNNI, 2 threads"
[[nodiscard]] std::string Describe(const KernelChoice& choice);

}  // namespace app
