#include "ops/cpu_probe.h"
#include "ops/fault_guard.h"

namespace ops {
namespace {

// The instruction as its bits, sdot v0.4s, v0.16b, v0.16b, so that this file needs no compile flag.
void DotProduct() { asm volatile(".inst 0x4e809400" ::: "v0"); }

}  // namespace

CpuFeatures ProbeInstructionSets() {
  const FaultGuard guard;
  CpuFeatures cpu;
  cpu.neon_dot = guard.Survives(&DotProduct);
  return cpu;
}

}  // namespace ops
