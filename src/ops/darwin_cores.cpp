#include <sys/sysctl.h>

#include <algorithm>
#include <thread>

#include "ops/cpu_probe.h"
#include "ops/tile_permission.h"

namespace ops {

int CountUsableCores() {
  int cores = 0;
  std::size_t size = sizeof(cores);
  // Performance cores where there are two kinds: the slow ones would hold up every operation.
  if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &size, nullptr, 0) == 0 && cores > 0) {
    return cores;
  }
  size = sizeof(cores);
  if (sysctlbyname("hw.physicalcpu", &cores, &size, nullptr, 0) == 0 && cores > 0) {
    return cores;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

bool RequestTilePermission() { return false; }

}  // namespace ops
