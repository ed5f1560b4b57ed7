#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cache {

// How the disk tier is set up.
struct SsdOptions {
  std::filesystem::path directory;
  std::uint64_t budget_bytes = 0;          // of the whole directory; 0: a tenth of what is free
  std::string fingerprint;                 // of the engine, 64 hex digits: the namespace
  std::vector<std::uint64_t> group_bytes;  // of a block, [layer group]
  std::string model_name;                  // for about.json
  // Memory for blocks on their way: what does not fit waits or, when it is evicted, is dropped.
  std::uint64_t write_queue_bytes = std::uint64_t{256} << 20U;
  // A few runs of blocks (block_reads.cpp) suffice; more memory means more page faults.
  std::uint64_t read_ahead_bytes = std::uint64_t{64} << 20U;
};

// The budget where nobody names one: a tenth of what would be free without the cache's files.
[[nodiscard]] constexpr std::uint64_t StandardSsdBudget(std::uint64_t free_bytes,
                                                        std::uint64_t used_bytes) {
  constexpr std::uint64_t kShare = 10;
  return (free_bytes + used_bytes) / kShare;
}

}  // namespace cache
