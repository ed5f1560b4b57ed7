#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu_features.h"
#include "ops/kv_store/kv_dtype.h"

namespace ops {

// One head of one row on its way into attention.
struct HeadInput {
  const float* x = nullptr;            // [head_dim]
  const float* norm_weight = nullptr;  // [head_dim], or null: no norm
  const float* angles = nullptr;       // [rotary_dim], cos | sin
  int head_dim = 0;                    // a multiple of 16
  int rotary_dim = 0;
  float eps = 0.0F;
  float scale = 1.0F;  // applied last
};

// n_tokens consecutive tokens on their way into one head of one block.
struct TokenStores {
  const float* k = nullptr;  // [n_tokens][head_dim], prepared
  const float* v = nullptr;  // [n_tokens] rows, v_stride floats apart
  std::ptrdiff_t v_stride = 0;
  std::byte* block_head = nullptr;  // K then V of the head in the block, see kv_store.h
  int first_slot = 0;               // first_slot + n_tokens <= kBlockTokens
  int n_tokens = 0;
  int head_dim = 0;
  KvDtype dtype = KvDtype::kF16;
};

// Running softmax sums of some rows: each row's largest score, sum of weights and weighted sum of
// V. A row that has seen nothing has max = -infinity.
struct SoftmaxSums {
  float* max = nullptr;  // [n_rows]
  float* sum = nullptr;  // [n_rows]
  float* acc = nullptr;  // [n_rows][head_dim]
};

// A tile of rows that attend with one KV head: row r belongs to the token at position
// first_position + r / group. Scores are in units of log 2 (q carries scale * log2 e).
struct AttentionTile {
  const float* q = nullptr;  // [n_rows][head_dim]
  int n_rows = 0;
  int group = 1;
  int head_dim = 0;
  std::int64_t first_position = 0;
  int window = 0;  // 0 = full
  const std::byte* const* blocks =
      nullptr;  // by position / kBlockTokens: the layer's part; null = passed by a window
  std::size_t head_offset = 0;  // bytes from there to the KV head's K
  KvDtype dtype = KvDtype::kF16;
};

// Working memory of attend, for n_rows of head_dim.
struct AttentionScratch {
  float* scores = nullptr;  // [n_rows][kBlockTokens]
  float* block = nullptr;   // [head_dim * kBlockTokens]
};

// The attention kernels of one instruction set; bit-equal in all sets.
struct AttentionKernels {
  // Norm, rotation, scale.
  void (*prepare_head)(const HeadInput& input, float* out);
  // Rounds and stores tokens.
  void (*store)(const TokenStores& stores);
  // Attends over the positions [begin, end) of one chunk that each row may see, from empty sums.
  void (*attend)(const AttentionTile& tile, std::int64_t begin, std::int64_t end,
                 const AttentionScratch& scratch, const SoftmaxSums& sums);
  // Adds the next chunk's sums of n_rows to `total`.
  void (*fold)(const SoftmaxSums& total, const SoftmaxSums& chunk, int n_rows, int head_dim);
  // acc / sum of one row.
  void (*finish)(const float* acc, float sum, int head_dim, float* out);
};

extern const AttentionKernels kPlainAttentionKernels;
extern const AttentionKernels kAvx2AttentionKernels;    // x86-64 only
extern const AttentionKernels kAvx512AttentionKernels;  // x86-64 only
extern const AttentionKernels kNeonAttentionKernels;    // 64-bit ARM only

// Those of `set`, or the plain ones where it has none of its own.
[[nodiscard]] const AttentionKernels& AttentionKernelsFor(InstructionSet set);

}  // namespace ops
