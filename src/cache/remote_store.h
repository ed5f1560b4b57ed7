#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cache/lower_tier.h"
#include "cache/remote_options.h"
#include "cache/remote_stats.h"

namespace cache {

// The shared tier: blocks on a Redis or Valkey server that several machines use, one value a block
// and layer group (kv_value.h), looked up, read and written by threads of its own. A server that is
// away, slow, full or lying is a miss that is counted and logged. Thread-safe; nothing here waits
// for the server but WaitUntilIdle and, for a few seconds at most, the destructor.
class RemoteStore final : public LowerTier {
 public:
  // Starts the threads; connects when there is something to do. `wake` is called by them when the
  // caller should look again.
  RemoteStore(RemoteOptions options, std::function<void()> wake);
  // Writes what is queued, within two seconds.
  ~RemoteStore() override;

  using LookupId = std::uint64_t;
  // Asks which groups of the blocks are there, in this order; stops where a block lacks one of
  // `needed`. Nothing: the server is left alone at the moment.
  [[nodiscard]] std::optional<LookupId> StartLookup(std::vector<WantedBlock> blocks,
                                                    GroupMask needed);
  // The groups of each block, once they are known.
  [[nodiscard]] std::optional<std::vector<GroupMask>> TakeLookup(LookupId id);
  // Forgets the lookup, whether it has ended or not.
  void EndLookup(LookupId id);

  bool HasRoom(std::uint64_t bytes) const override;
  bool Write(Segment segment) override;
  void CountDropped(std::uint64_t blocks) override;
  ReadId StartRead(std::vector<WantedBlock> wanted) override;
  ReadProgress TakeRead(ReadId id) override;
  void Recycle(BlockRead block) override;
  void EndRead(ReadId id) override;

  // Until nothing is queued, or the server is left alone.
  void WaitUntilIdle();

  [[nodiscard]] RemoteStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cache
