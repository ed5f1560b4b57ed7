#include "base/bytes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

std::string FormatBytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return value < 10.0 && unit > 0 ? fmt::format("{:.1f} {}", value, kUnits[unit])
                                  : fmt::format("{:.0f} {}", value, kUnits[unit]);
}

std::uint64_t TotalMemoryBytes() {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  std::uint64_t total = pages * page_bytes;
  // cgroup v2, then v1; "max" or a huge number means no limit.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::uint64_t limit = 0;
    if (file >> limit && limit > 0) {
      total = std::min(total, limit);
    }
  }
  return total;
}
