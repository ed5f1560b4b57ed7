// The native KvStore: blocks in reserved memory, one range of addresses a group.

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "base/log.h"
#include "ops/kv_store/reserved_memory.h"
#include "ops/kv_store/shared_accounting.h"

namespace ops {
namespace {

// Freed blocks of a group that keep their memory: a finished request's last blocks serve the next
// one without page faults (about 0.1 ms for each MB).
constexpr std::uint64_t kHotBytes = std::uint64_t{8} << 20U;

std::vector<ReservedMemory> Reserve(const KvStoreSpec& spec) {
  std::vector<ReservedMemory> memory;
  for (const LayerGroup& group : spec.groups) {
    const std::uint64_t block_bytes = LayerBytesOf(spec, group) * group.layers.size();
    // Ids are 32 bits wide.
    const std::uint64_t blocks = std::min<std::uint64_t>(spec.budget_bytes / block_bytes,
                                                         std::numeric_limits<BlockId>::max());
    ReservedMemory& range = memory.emplace_back(blocks * block_bytes);
    if (range.size() < blocks * block_bytes) {
      spdlog::warn("the system reserves only {} of {} bytes of addresses for K and V", range.size(),
                   blocks * block_bytes);
    }
  }
  return memory;
}

std::vector<BlockId> Capacity(const KvStoreSpec& spec, const std::vector<ReservedMemory>& memory) {
  std::vector<BlockId> capacity;
  for (std::size_t group = 0; group < memory.size(); ++group) {
    const std::uint64_t block_bytes =
        LayerBytesOf(spec, spec.groups[group]) * spec.groups[group].layers.size();
    capacity.push_back(static_cast<BlockId>(memory[group].size() / block_bytes));
  }
  return capacity;
}

class NativeKvStore final : public AccountedKvStore {
 public:
  NativeKvStore(KvStoreSpec spec, std::vector<ReservedMemory> memory)
      : AccountedKvStore(spec, Capacity(spec, memory)), memory_(std::move(memory)) {}

  [[nodiscard]] std::byte* LayerData(int group, BlockId block, int index) override {
    assert(ids(group).IsTaken(block));
    return memory_[static_cast<std::size_t>(group)].data() + Offset(group, block) +
           LayerBytes(group) * static_cast<std::uint64_t>(index);
  }

  void CopyOut(int group, BlockId block, std::span<std::byte> out) override {
    assert(out.size() == BlockBytes(group));
    std::memcpy(out.data(), LayerData(group, block, 0), out.size());
  }
  void CopyIn(int group, BlockId block, std::span<const std::byte> bytes) override {
    assert(bytes.size() == BlockBytes(group));
    std::memcpy(LayerData(group, block, 0), bytes.data(), bytes.size());
  }

  [[nodiscard]] BlockArrays& Arrays(int /*group*/, BlockId /*block*/, int /*index*/) override {
    assert(false && "the native store has no arrays");
    std::abort();
  }

 protected:
  void OnAllocate(int /*group*/, BlockId /*block*/) override {}

  // Freed ids are handed out last in, first out, so the oldest of the hot ones turns cold: each
  // Free cools at most one block, the one that just left the hot end of the list.
  void OnFree(int group, BlockId /*block*/) override {
    const std::vector<BlockId>& freed = ids(group).freed();
    const std::uint64_t hot = kHotBytes / BlockBytes(group);
    if (freed.size() > hot) {
      const BlockId oldest_hot = freed[freed.size() - 1 - hot];
      memory_[static_cast<std::size_t>(group)].Release(Offset(group, oldest_hot),
                                                       BlockBytes(group));
    }
  }

 private:
  [[nodiscard]] std::uint64_t Offset(int group, BlockId block) const {
    return BlockBytes(group) * static_cast<std::uint64_t>(block);
  }

  std::vector<ReservedMemory> memory_;  // per group
};

}  // namespace

std::unique_ptr<KvStore> MakeNativeKvStore(KvStoreSpec spec) {
  std::vector<ReservedMemory> memory = Reserve(spec);
  return std::make_unique<NativeKvStore>(std::move(spec), std::move(memory));
}

}  // namespace ops
