#pragma once

#include <string_view>

namespace ops {

// The instruction sets with kernels of their own, worst to best.
enum class InstructionSet { kPlain, kAvx2, kAvx512Vnni, kNeon };

[[nodiscard]] std::string_view Name(InstructionSet set);

// What this machine can really run: each set is probed by executing one of its instructions under a
// signal guard in a child-free way, once a process; CPUID alone is not believed (virtual machines
// advertise AMX that faults). `amx_int8` is probed so and reported; no kernel uses it yet.
struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA, F16C
  bool avx512_vnni = false;  // AVX-512 F, BW, VL, DQ, VNNI
  bool amx_int8 = false;
  bool neon_dot = false;
  int physical_cores = 1;  // that this process may use
};

// Probes on the first call, which must not run while other threads change signal handlers; then
// cached.
[[nodiscard]] const CpuFeatures& DetectCpu();

// The best set; EMBERBANK_ISA=plain|avx2|avx512 lowers it (for tests and comparisons), never raises
// it.
[[nodiscard]] InstructionSet BestInstructionSet();

}  // namespace ops
