#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "ops/cpu_probe.h"
#include "ops/tile_permission.h"

namespace ops {
namespace {

// First line of a file, empty when it cannot be read.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Cores whose threads are in the affinity mask, each counted once.
int CoresInAffinityMask() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return static_cast<int>(std::thread::hardware_concurrency());
  }
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) {
      const std::string number = std::to_string(cpu);
      const std::string siblings =
          FirstLine("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
      cores.insert(siblings.empty() ? number : siblings);
    }
  }
  return static_cast<int>(cores.size());
}

// Processors that a quota of `quota` per `period` microseconds is worth; 0 = no limit.
int CoresOfQuota(double quota, double period) {
  return quota > 0 && period > 0 ? std::max(1, static_cast<int>(std::ceil(quota / period))) : 0;
}

double AsNumber(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? 0 : value;
}

// Control groups, version 2 then 1; the group's own folder is mounted at the root inside
// containers.
int CoresOfControlGroup() {
  const std::string v2 = FirstLine("/sys/fs/cgroup/cpu.max");  // "max 100000" or "200000 100000"
  if (const std::size_t space = v2.find(' '); space != std::string::npos) {
    return CoresOfQuota(AsNumber(v2.substr(0, space)), AsNumber(v2.substr(space + 1)));
  }
  return CoresOfQuota(AsNumber(FirstLine("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")),
                      AsNumber(FirstLine("/sys/fs/cgroup/cpu/cpu.cfs_period_us")));
}

}  // namespace

int CountUsableCores() {
  const int cores = std::max(1, CoresInAffinityMask());
  const int quota = CoresOfControlGroup();
  return quota > 0 ? std::min(cores, quota) : cores;
}

bool RequestTilePermission() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
#if defined(SYS_arch_prctl)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return kRequestPermission == kTileData;  // no such call on this processor
#endif
}

}  // namespace ops
