#include "ops/cpu_features.h"

#include <cstdlib>
#include <string_view>

#include "ops/cpu_probe.h"

namespace ops {
namespace {

InstructionSet Best(const CpuFeatures& cpu) {
  if (cpu.neon_dot) {
    return InstructionSet::kNeon;
  }
  if (cpu.avx512_vnni && cpu.avx2) {
    return InstructionSet::kAvx512Vnni;
  }
  return cpu.avx2 ? InstructionSet::kAvx2 : InstructionSet::kPlain;
}

}  // namespace

std::string_view Name(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPlain:
      return "plain";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512Vnni:
      return "avx512";
    case InstructionSet::kNeon:
      return "neon";
  }
  return "plain";
}

const CpuFeatures& DetectCpu() {
  static const CpuFeatures kFeatures = [] {
    CpuFeatures cpu = ProbeInstructionSets();
    cpu.physical_cores = CountUsableCores();
    return cpu;
  }();
  return kFeatures;
}

InstructionSet BestInstructionSet() {
  const CpuFeatures& cpu = DetectCpu();
  const InstructionSet best = Best(cpu);
  const char* wanted = std::getenv("EMBERBANK_ISA");
  if (wanted == nullptr) {
    return best;
  }
  if (wanted == std::string_view("plain")) {
    return InstructionSet::kPlain;
  }
  if (wanted == std::string_view("avx2") && cpu.avx2) {
    return InstructionSet::kAvx2;
  }
  return best;
}

}  // namespace ops
