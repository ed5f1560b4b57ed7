#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/block_reads.h"
#include "cache/redis_connection.h"
#include "cache/remote_health.h"
#include "cache/remote_options.h"

namespace cache {

// Blocks out of the shared tier's server, checked. Thread-safe.
class RemoteSource final : public BlockSource {
 public:
  // All must outlive it.
  RemoteSource(const RemoteOptions& options, const KvFileSpec& spec, RemoteHealth& health,
               const std::atomic<bool>& stop)
      : options_(options), spec_(spec), health_(health), stop_(stop) {}

  [[nodiscard]] std::unique_ptr<Session> Open() override;

  // Whether the value of this name has failed a check before, and could be removed by nobody.
  [[nodiscard]] bool IsBad(const std::string& name) const;

  [[nodiscard]] std::uint64_t missing_blocks() const { return missing_blocks_; }
  [[nodiscard]] std::uint64_t damaged_blocks() const { return damaged_blocks_; }

 private:
  class Reader;
  void NoteDamage(RedisConnection& connection, const std::string& name, const std::string& why);

  const RemoteOptions& options_;
  const KvFileSpec& spec_;
  RemoteHealth& health_;
  const std::atomic<bool>& stop_;
  std::atomic<std::uint64_t> missing_blocks_ = 0;
  std::atomic<std::uint64_t> damaged_blocks_ = 0;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::unique_ptr<RedisConnection>> spare_;  // open ones, for the next session
  std::unordered_set<std::string> bad_;                  // names
};

// Time for so many bytes beyond a time-out: as a connection of 80 Mbit/s has them.
[[nodiscard]] std::chrono::milliseconds TimeFor(std::uint64_t bytes);

}  // namespace cache
