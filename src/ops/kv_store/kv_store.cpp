#include "ops/kv_store/kv_store.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "ops/kv_store/shared_accounting.h"

namespace ops {

std::uint64_t LayerBytesOf(const KvStoreSpec& spec, const LayerGroup& group) {
  if (group.is_recurrent()) {
    return sizeof(float) * (static_cast<std::uint64_t>(group.state_floats) +
                            static_cast<std::uint64_t>(group.conv_floats));
  }
  return KvHeadBytes(spec.dtype, spec.head_dim) * static_cast<std::uint64_t>(spec.n_kv_heads);
}

AccountedKvStore::AccountedKvStore(KvStoreSpec spec, const std::vector<BlockId>& capacity)
    : spec_(std::move(spec)) {
  for (const BlockId blocks : capacity) {
    ids_.emplace_back(blocks);
  }
  for (std::size_t group = 0; group < spec_.groups.size(); ++group) {
    const std::vector<int>& layers = spec_.groups[group].layers;
    for (std::size_t index = 0; index < layers.size(); ++index) {
      const auto layer = static_cast<std::size_t>(layers[index]);
      places_.resize(std::max(places_.size(), layer + 1));
      places_[layer] = {.group = static_cast<int>(group), .index = static_cast<int>(index)};
    }
  }
}

std::uint64_t AccountedKvStore::LayerBytes(int group) const {
  return LayerBytesOf(spec_, spec_.groups[static_cast<std::size_t>(group)]);
}

std::uint64_t AccountedKvStore::BlockBytes(int group) const {
  return LayerBytes(group) * spec_.groups[static_cast<std::size_t>(group)].layers.size();
}

std::optional<BlockId> AccountedKvStore::Allocate(int group) {
  const std::uint64_t bytes = BlockBytes(group);
  if (bytes > spec_.budget_bytes - used_bytes_) {
    return std::nullopt;
  }
  const std::optional<BlockId> block = ids(group).Take();
  if (block) {
    used_bytes_ += bytes;
    OnAllocate(group, *block);
  }
  return block;
}

void AccountedKvStore::Free(int group, BlockId block) {
  assert(ids(group).IsTaken(block));
  ids(group).Give(block);
  used_bytes_ -= BlockBytes(group);
  OnFree(group, block);
}

KvStore::LayerPlace AccountedKvStore::PlaceOf(int layer) const {
  assert(layer >= 0 && static_cast<std::size_t>(layer) < places_.size());
  return places_[static_cast<std::size_t>(layer)];
}

std::unique_ptr<KvStore> MakeKvStore(const Context& context, KvStoreSpec spec) {
  assert(!spec.groups.empty() && spec.head_dim > 0);
  return context.path == KernelPath::kNative ? MakeNativeKvStore(std::move(spec))
                                             : MakeReferenceKvStore(std::move(spec));
}

}  // namespace ops
