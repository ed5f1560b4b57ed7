#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/kernel_choice.h"
#include "base/file_system.h"
#include "base/result.h"
#include "ops/cpu_features.h"
#include "ops/machine_speed/machine_speed.h"

namespace app {

// Of the disk that keeps prefixes.
struct DiskFacts {
  std::filesystem::path directory;
  std::uint64_t free_bytes = 0;
  double write_bytes_per_s = 0;  // until the data would survive a loss of power
  double read_bytes_per_s = 0;   // not from memory, where the system can be asked for that
};

// What `emberbank doctor` knows of a machine. Empty or absent: the system does not tell.
struct MachineFacts {
  std::string processor;
  ops::CpuFeatures cpu;
  KernelChoice kernels;
  int hardware_threads = 0;
  std::optional<double> load;  // programs that wanted to run, mean of the last minute
  std::uint64_t memory_bytes = 0;
  std::optional<std::uint64_t> available_bytes;
  std::optional<std::uint64_t> swapped_bytes;
  std::string large_pages;  // "madvise" of Linux's always, madvise, never
  std::string governor;     // "powersave"
  ops::MachineSpeed speed;
  std::optional<DiskFacts> disk;
  std::string disk_problem;  // why there is no `disk`
};

// What the system tells; `speed` and `disk` are left to be measured. Reads Linux's files below
// `root` ("/" but in tests).
void ReadSystemFiles(const std::filesystem::path& root, MachineFacts& facts);

// Writes, reads and removes a file of 256 MiB (less on a disk with little room) in `directory`.
// Errors: what cannot be written, in a sentence.
[[nodiscard]] Result<DiskFacts> MeasureDisk(FileSystem& files,
                                            const std::filesystem::path& directory);

// What slows this machine, a sentence each with what to do about it.
[[nodiscard]] std::vector<std::string> Warnings(const MachineFacts& facts);

}  // namespace app
