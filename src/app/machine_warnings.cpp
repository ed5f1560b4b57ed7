// What `emberbank doctor` makes of the facts.
#include <fmt/format.h>

#include "app/machine_facts.h"
#include "base/bytes.h"

namespace app {
namespace {

constexpr double kMega = 1e6;
constexpr double kSlowDisk = 150 * kMega;  // bytes a second: a spinning disk, a network
constexpr double kSlowMemory = 5000 * kMega;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
constexpr std::uint64_t kLittleMemory = 4 * kGiB;
constexpr std::uint64_t kLittleDisk = 10 * kGiB;
constexpr double kOftenBusy = 0.5;  // of a processor, by other programs

void AddOfProcessor(const MachineFacts& facts, std::vector<std::string>& warnings) {
  if (facts.kernels.path == ops::KernelPath::kReference) {
    warnings.emplace_back(
        "EMBERBANK_KERNELS=reference computes with plain MLX, many times slower on a processor "
        "than the kernels that it switches off.");
  }
  if (facts.kernels.instruction_set == ops::InstructionSet::kPlain) {
    warnings.emplace_back(
        "The processor has none of the instruction sets that there are fast kernels for (AVX2, "
        "AVX-512 VNNI): expect a tenth of the speed.");
  }
  if (facts.load && *facts.load > kOftenBusy) {
    warnings.push_back(fmt::format(
        "Other programs keep {:.1f} processors busy (load of the last minute); the engine's "
        "threads wait for each other, so one that is held up holds up all.",
        *facts.load));
  }
  if (facts.kernels.threads > facts.cpu.physical_cores) {
    warnings.push_back(
        fmt::format("--threads {} is more than the {} physical cores that this process may use.",
                    facts.kernels.threads, facts.cpu.physical_cores));
  }
  if (facts.governor == "powersave" || facts.governor == "conservative") {
    warnings.push_back(
        fmt::format("The processor saves power (governor {}); `performance` is faster: "
                    "cpupower frequency-set -g performance.",
                    facts.governor));
  }
}

void AddOfMemory(const MachineFacts& facts, std::vector<std::string>& warnings) {
  if (facts.large_pages == "never") {
    warnings.emplace_back(
        "Large memory pages are off, which slows decoding deep in a context by a quarter: echo "
        "madvise > /sys/kernel/mm/transparent_hugepage/enabled.");
  }
  if (facts.available_bytes && *facts.available_bytes < kLittleMemory) {
    warnings.push_back(fmt::format("Only {} of {} memory are free: models and prefixes share them.",
                                   FormatBytes(*facts.available_bytes),
                                   FormatBytes(facts.memory_bytes)));
  }
  if (facts.swapped_bytes && *facts.swapped_bytes > kGiB) {
    warnings.push_back(
        fmt::format("{} of programs' memory are swapped out: the machine is short of memory.",
                    FormatBytes(*facts.swapped_bytes)));
  }
  if (facts.speed.read_bytes_per_s > 0 && facts.speed.read_bytes_per_s < kSlowMemory) {
    warnings.push_back(
        fmt::format("Memory is read at only {:.1f} GB/s, which bounds decoding: each token reads "
                    "all weights once.",
                    facts.speed.read_bytes_per_s / 1e9));
  }
}

void AddOfDisk(const MachineFacts& facts, std::vector<std::string>& warnings) {
  if (!facts.disk) {
    warnings.push_back(facts.disk_problem +
                       " Without a disk, prefixes do not survive a restart (--no-ssd-cache).");
    return;
  }
  if (facts.disk->free_bytes < kLittleDisk) {
    warnings.push_back(
        fmt::format("The disk of {} has only {} left; a tenth of it is used for prefixes "
                    "(--ssd-cache-max-gb, --ssd-cache-dir).",
                    facts.disk->directory.string(), FormatBytes(facts.disk->free_bytes)));
  }
  if (facts.disk->read_bytes_per_s < kSlowDisk) {
    warnings.push_back(
        fmt::format("The disk of {} reads {:.0f} MB/s; restoring prefixes from it takes long "
                    "(--ssd-cache-dir names another).",
                    facts.disk->directory.string(), facts.disk->read_bytes_per_s / kMega));
  }
}

}  // namespace

std::vector<std::string> Warnings(const MachineFacts& facts) {
  std::vector<std::string> warnings;
  AddOfProcessor(facts, warnings);
  AddOfMemory(facts, warnings);
  AddOfDisk(facts, warnings);
  return warnings;
}

}  // namespace app
