#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/lower_tier.h"
#include "cache/redis_connection.h"
#include "cache/remote_health.h"
#include "cache/remote_options.h"
#include "cache/remote_source.h"

namespace cache {

// The questions of RemoteStore: which blocks the server has. Thread-safe.
class RemoteLookups {
 public:
  // All must outlive it.
  RemoteLookups(const RemoteOptions& options, const KvFileSpec& spec, RemoteHealth& health,
                const RemoteSource& source, const std::atomic<bool>& stop,
                const std::function<void()>& wake)
      : options_(options),
        spec_(spec),
        health_(health),
        source_(source),
        stop_(stop),
        wake_(wake) {}

  // What the asking thread does until Stop.
  void Run();
  void Stop();

  // As RemoteStore's.
  using LookupId = std::uint64_t;
  [[nodiscard]] std::optional<LookupId> Start(std::vector<WantedBlock> blocks, GroupMask needed);
  [[nodiscard]] std::optional<std::vector<GroupMask>> Take(LookupId id);
  void End(LookupId id);

  [[nodiscard]] std::uint64_t lookups() const { return lookups_done_; }
  [[nodiscard]] std::uint64_t found_blocks() const { return found_blocks_; }

 private:
  struct Lookup {
    std::vector<WantedBlock> blocks;
    GroupMask needed = 0;
    std::optional<std::vector<GroupMask>> found = {};
  };
  [[nodiscard]] std::vector<GroupMask> LookUp(RedisConnection& connection,
                                              const std::vector<WantedBlock>& blocks,
                                              GroupMask needed);
  [[nodiscard]] bool AskForPart(RedisConnection& connection, std::span<const WantedBlock> blocks,
                                std::span<GroupMask> found);

  const RemoteOptions& options_;
  const KvFileSpec& spec_;
  RemoteHealth& health_;
  const RemoteSource& source_;
  const std::atomic<bool>& stop_;
  const std::function<void()>& wake_;
  std::atomic<std::uint64_t> lookups_done_ = 0;
  std::atomic<std::uint64_t> found_blocks_ = 0;
  std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_:
  std::map<LookupId, Lookup> lookups_;
  std::deque<LookupId> asked_;
  LookupId next_id_ = 1;
  bool stopping_ = false;
};

// Whether the server has each value; those that it has get their whole time to live again.
[[nodiscard]] RedisResult<std::vector<bool>> AskForValues(RedisConnection& connection,
                                                          const RemoteOptions& options,
                                                          const std::vector<std::string>& names);

}  // namespace cache
