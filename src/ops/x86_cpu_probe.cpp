#include <cstdint>

#include "ops/cpu_probe.h"
#include "ops/fault_guard.h"
#include "ops/tile_permission.h"

namespace ops {
namespace {

// The instructions are written as text, so that this file needs none of their compile flags.
void Avx2() {
  asm volatile(
      "vpaddd %%ymm0, %%ymm0, %%ymm0\n\t"
      "vfmadd231ps %%ymm0, %%ymm0, %%ymm0\n\t"
      "vcvtph2ps %%xmm0, %%ymm0\n\t"
      "vzeroupper" ::
          : "xmm0");
}

void Avx512Vnni() {
  asm volatile(
      "vpaddd %%zmm0, %%zmm0, %%zmm0\n\t"    // F
      "vpaddb %%zmm0, %%zmm0, %%zmm0\n\t"    // BW
      "vpaddd %%ymm0, %%ymm0, %%ymm0\n\t"    // (VEX)
      "vpandd %%ymm0, %%ymm0, %%ymm0\n\t"    // VL
      "vpmullq %%zmm0, %%zmm0, %%zmm0\n\t"   // DQ
      "vpdpbusd %%zmm0, %%zmm0, %%zmm0\n\t"  // VNNI
      "vpdpbusd %%ymm0, %%ymm0, %%ymm0\n\t"
      "vzeroupper" ::
          : "xmm0");
}

void AmxInt8() {
  struct alignas(64) TileConfig {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16};
  };
  const TileConfig config;
  asm volatile(
      "ldtilecfg %0\n\t"
      "tilezero %%tmm0\n\t"
      "tilezero %%tmm1\n\t"
      "tilezero %%tmm2\n\t"
      "tdpbssd %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilerelease" ::"m"(config));
}

}  // namespace

CpuFeatures ProbeInstructionSets() {
  const FaultGuard guard;
  CpuFeatures cpu;
  cpu.avx2 = guard.Survives(&Avx2);
  cpu.avx512_vnni = cpu.avx2 && guard.Survives(&Avx512Vnni);
  cpu.amx_int8 = cpu.avx512_vnni && RequestTilePermission() && guard.Survives(&AmxInt8);
  return cpu;
}

}  // namespace ops
