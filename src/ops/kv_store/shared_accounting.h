#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/kv_store/block_ids.h"
#include "ops/kv_store/kv_store.h"

namespace ops {

// The part of a KvStore that native and reference store share: which blocks exist and what they
// cost.
class AccountedKvStore : public KvStore {
 public:
  [[nodiscard]] const std::vector<LayerGroup>& groups() const override { return spec_.groups; }
  [[nodiscard]] std::uint64_t BlockBytes(int group) const override;
  [[nodiscard]] std::optional<BlockId> Allocate(int group) override;
  void Free(int group, BlockId block) override;
  [[nodiscard]] std::uint64_t used_bytes() const override { return used_bytes_; }
  [[nodiscard]] std::uint64_t budget_bytes() const override { return spec_.budget_bytes; }
  [[nodiscard]] const KvStoreSpec& spec() const override { return spec_; }
  [[nodiscard]] LayerPlace PlaceOf(int layer) const override;

 protected:
  // capacity: blocks that each group can hold.
  AccountedKvStore(KvStoreSpec spec, const std::vector<BlockId>& capacity);

  // Of one layer in one block of the group.
  [[nodiscard]] std::uint64_t LayerBytes(int group) const;
  [[nodiscard]] BlockIds& ids(int group) { return ids_[static_cast<std::size_t>(group)]; }

  virtual void OnAllocate(int group, BlockId block) = 0;
  virtual void OnFree(int group, BlockId block) = 0;

 private:
  KvStoreSpec spec_;
  std::vector<BlockIds> ids_;       // per group
  std::vector<LayerPlace> places_;  // per model layer
  std::uint64_t used_bytes_ = 0;
};

// Bytes of one layer's K and V, or of its state, in one block of `group`.
[[nodiscard]] std::uint64_t LayerBytesOf(const KvStoreSpec& spec, const LayerGroup& group);

[[nodiscard]] std::unique_ptr<KvStore> MakeNativeKvStore(KvStoreSpec spec);
[[nodiscard]] std::unique_ptr<KvStore> MakeReferenceKvStore(KvStoreSpec spec);

}  // namespace ops
