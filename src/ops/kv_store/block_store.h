#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ops {

// Tokens in a KV block: the grain of sharing.
inline constexpr int kBlockTokens = 64;

using BlockId = std::int32_t;
inline constexpr BlockId kNoBlock = -1;

// The window of recurrent layers: block i of a table holds the state after the last token of
// positions [64 i, 64 i + 64) that was computed, so that a token sees only the block of the token
// before it, and a sequence keeps besides the block it is in the one that it filled last (where
// another sequence may go on).
inline constexpr int kStateWindow = kBlockTokens + 1;

// Layers that share one block table because they keep the same range of positions.
struct LayerGroup {
  std::vector<int> layers;  // model layer numbers, ascending
  int window =
      0;  // sliding window in tokens (a token sees itself and window - 1 before it); 0 = full
  // Recurrent layers keep these float32 numbers a layer in place of K and V: what the recurrence
  // carries, and the last inputs of a short convolution. Their window is kStateWindow.
  int state_floats = 0;
  int conv_floats = 0;

  [[nodiscard]] bool is_recurrent() const { return state_floats + conv_floats > 0; }
};

// Storage of KV blocks, without their content: what the cache and the scheduler need. A block holds
// the K and V of kBlockTokens consecutive tokens in all layers of one group, or the state of all
// layers of a recurrent group at the end of those tokens. Blocks of a store draw on one byte
// budget. Used by the engine thread only.
class BlockStore {
 public:
  BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  virtual ~BlockStore() = default;

  [[nodiscard]] virtual const std::vector<LayerGroup>& groups() const = 0;

  // Bytes of one block of group `group`.
  [[nodiscard]] virtual std::uint64_t BlockBytes(int group) const = 0;

  // A block with unspecified content, or nothing when it would exceed the budget.
  [[nodiscard]] virtual std::optional<BlockId> Allocate(int group) = 0;

  // Gives the block's memory back. REQUIRES: allocated, not freed before.
  virtual void Free(int group, BlockId block) = 0;

  // The block's content as BlockBytes(group) opaque bytes, and back into a block of the same group
  // of this store or of another with the same fingerprint. REQUIRES: what is copied out is full.
  virtual void CopyOut(int group, BlockId block, std::span<std::byte> out) = 0;
  virtual void CopyIn(int group, BlockId block, std::span<const std::byte> bytes) = 0;

  [[nodiscard]] virtual std::uint64_t used_bytes() const = 0;
  [[nodiscard]] virtual std::uint64_t budget_bytes() const = 0;
};

}  // namespace ops
