#pragma once

#include <vector>

#include "ops/cpu_features.h"

namespace ops::testing {

// The instruction sets that this machine can run, worst to best.
inline std::vector<InstructionSet> PresentSets() {
  std::vector<InstructionSet> sets{InstructionSet::kPlain};
  if (DetectCpu().avx2) {
    sets.push_back(InstructionSet::kAvx2);
  }
  if (DetectCpu().avx512_vnni) {
    sets.push_back(InstructionSet::kAvx512Vnni);
  }
  if (DetectCpu().neon_dot) {
    sets.push_back(InstructionSet::kNeon);
  }
  return sets;
}

}  // namespace ops::testing
