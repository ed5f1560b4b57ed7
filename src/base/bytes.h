#pragma once

#include <cstdint>
#include <string>

// "1.5 GiB", "312 MiB", "17 B": for people.
[[nodiscard]] std::string FormatBytes(std::uint64_t bytes);

// Physical memory this process may use, in bytes: the machine's, or the cgroup's limit where that
// is lower.
[[nodiscard]] std::uint64_t TotalMemoryBytes();
