#include "ops/attention/native_attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "ops/attention/kernels.h"
#include "ops/native_op.h"
#include "ops/vector/aligned_floats.h"
#include "ops/vector/vector_math.h"

namespace ops {
namespace {

namespace mx = mlx::core;

// Rows of one tile. Converting a block of K and V to float is shared by the tile's rows (about 3 %
// of the time with this many); more would leave the L2 cache with head_dim 128.
constexpr int kTileRows = 192;
// Tiles are cut at the chunks when there are fewer of them than this for each thread.
constexpr int kTilesPerThread = 4;

// What the kernels need to know of one sequence.
struct Sequence {
  int first_row = 0;
  int n_tokens = 0;
  std::int64_t first_position = 0;
  std::vector<std::byte*> blocks;  // the layer's part of each block, null where a window has passed
};

// Consecutive tokens of one sequence with one KV head: one task, or one for each chunk of
// positions.
struct Tile {
  const Sequence* sequence = nullptr;
  int kv_head = 0;
  int first_token = 0;
  int n_tokens = 0;
  std::int64_t begin = 0;  // positions that some row sees
  std::int64_t end = 0;
  int first_part = 0;  // of its chunks, when they are tasks of their own
};

// Softmax sums of some rows, and where they live.
class OwnedSums {
 public:
  void Resize(int n_rows, int head_dim) {
    // acc first: it is the part that vectors read.
    n_rows_ = n_rows;
    n_acc_ = static_cast<std::ptrdiff_t>(n_rows) * head_dim;
    values_.Resize(static_cast<std::size_t>(n_acc_ + 2 * n_rows_));
  }
  [[nodiscard]] SoftmaxSums View() const {
    float* const values = values_.data();
    return {.max = values + n_acc_, .sum = values + n_acc_ + n_rows_, .acc = values};
  }

 private:
  std::ptrdiff_t n_rows_ = 0;
  std::ptrdiff_t n_acc_ = 0;
  AlignedFloats values_;
};

// A thread's working memory, kept between calls: page faults would cost more than the work on small
// tiles.
struct Workspace {
  AlignedFloats q;
  AlignedFloats scores;
  AlignedFloats block;
  OwnedSums total;
  OwnedSums chunk;
};

Workspace& ThisThreadsWorkspace() {
  thread_local Workspace workspace;
  return workspace;
}

// One layer's attention in one step, on plain memory.
class LayerAttention {
 public:
  struct Inputs {
    const float* qkv = nullptr;     // [T, (n_heads + 2 n_kv_heads) * head_dim]
    const float* angles = nullptr;  // [T, rotary_dim]
    int rotary_dim = 0;
    const float* q_norm = nullptr;  // or null
    const float* k_norm = nullptr;
    const float* sinks = nullptr;  // [n_heads] or null
    float* out = nullptr;          // [T, n_heads * head_dim]
  };

  LayerAttention(const Context& context, const AttentionSpec& spec, KvDtype dtype,
                 const Inputs& inputs)
      : pool_(*context.pool),
        kernels_(AttentionKernelsFor(context.instruction_set)),
        spec_(spec),
        dtype_(dtype),
        inputs_(inputs),
        group_(spec.n_heads / spec.n_kv_heads) {}

  void Run(const std::vector<Sequence>& sequences) {
    StoreAll(sequences);
    AttendAll(Tiles(sequences));
  }

 private:
  [[nodiscard]] std::ptrdiff_t RowSize() const {
    return static_cast<std::ptrdiff_t>(spec_.n_heads + 2 * spec_.n_kv_heads) * spec_.head_dim;
  }
  [[nodiscard]] const float* Head(std::ptrdiff_t row, int head) const {
    return inputs_.qkv + row * RowSize() + static_cast<std::ptrdiff_t>(head) * spec_.head_dim;
  }
  // Bytes from a layer's part of a block to a head's K.
  [[nodiscard]] std::size_t HeadOffset(int kv_head) const {
    return KvHeadBytes(dtype_, spec_.head_dim) * static_cast<std::size_t>(kv_head);
  }
  [[nodiscard]] std::int64_t WindowStart(std::int64_t position) const {
    return spec_.window == 0 ? 0 : std::max<std::int64_t>(0, position - spec_.window + 1);
  }
  [[nodiscard]] HeadInput InputOf(std::ptrdiff_t row, const float* x) const {
    return {.x = x,
            .angles = inputs_.angles + row * inputs_.rotary_dim,
            .head_dim = spec_.head_dim,
            .rotary_dim = inputs_.rotary_dim,
            .eps = spec_.norm_eps};
  }

  void StoreAll(const std::vector<Sequence>& sequences);
  void StorePart(const Sequence& sequence, int first_token, int n_tokens) const;
  [[nodiscard]] std::vector<Tile> Tiles(const std::vector<Sequence>& sequences) const;
  void AttendAll(std::vector<Tile> tiles);
  void AttendInParts(std::vector<Tile>& tiles);
  void AttendWhole(const Tile& tile) const;
  void AttendPart(const Tile& tile, std::int64_t chunk, Workspace& workspace,
                  const SoftmaxSums& sums) const;
  void PrepareQ(const Tile& tile, Workspace& workspace) const;
  void Finish(const Tile& tile, const SoftmaxSums& sums) const;

  [[nodiscard]] static std::int64_t FirstChunk(const Tile& tile) {
    return tile.begin / kChunkTokens;
  }
  [[nodiscard]] static std::int64_t EndChunk(const Tile& tile) {
    return (tile.end + kChunkTokens - 1) / kChunkTokens;
  }
  [[nodiscard]] int Rows(const Tile& tile) const { return tile.n_tokens * group_; }

  ThreadPool& pool_;
  const AttentionKernels& kernels_;
  const AttentionSpec& spec_;
  KvDtype dtype_;
  Inputs inputs_;
  int group_;
};

// One task stores up to a block's tokens of all heads.
void LayerAttention::StoreAll(const std::vector<Sequence>& sequences) {
  struct Part {
    const Sequence* sequence;
    int first_token;
    int n_tokens;
  };
  std::vector<Part> parts;
  for (const Sequence& sequence : sequences) {
    for (int t = 0; t < sequence.n_tokens;) {
      const auto slot = static_cast<int>((sequence.first_position + t) % kBlockTokens);
      const int n = std::min(kBlockTokens - slot, sequence.n_tokens - t);
      parts.push_back({.sequence = &sequence, .first_token = t, .n_tokens = n});
      t += n;
    }
  }
  pool_.ParallelFor(static_cast<int>(parts.size()), [&](int i) {
    const Part& part = parts[static_cast<std::size_t>(i)];
    StorePart(*part.sequence, part.first_token, part.n_tokens);
  });
}

void LayerAttention::StorePart(const Sequence& sequence, int first_token, int n_tokens) const {
  AlignedFloats& prepared = ThisThreadsWorkspace().q;
  prepared.Resize(static_cast<std::size_t>(kBlockTokens) *
                  static_cast<std::size_t>(spec_.head_dim));
  const std::int64_t position = sequence.first_position + first_token;
  std::byte* const block = sequence.blocks[static_cast<std::size_t>(position / kBlockTokens)];
  const std::ptrdiff_t row = sequence.first_row + first_token;
  for (int h = 0; h < spec_.n_kv_heads; ++h) {
    for (std::ptrdiff_t t = 0; t < n_tokens; ++t) {
      HeadInput input = InputOf(row + t, Head(row + t, spec_.n_heads + h));
      input.norm_weight = inputs_.k_norm;
      kernels_.prepare_head(input, prepared.data() + t * spec_.head_dim);
    }
    kernels_.store({.k = prepared.data(),
                    .v = Head(row, spec_.n_heads + spec_.n_kv_heads + h),
                    .v_stride = RowSize(),
                    .block_head = block + HeadOffset(h),
                    .first_slot = static_cast<int>(position % kBlockTokens),
                    .n_tokens = n_tokens,
                    .head_dim = spec_.head_dim,
                    .dtype = dtype_});
  }
}

// Longest first, so that the threads end together.
std::vector<Tile> LayerAttention::Tiles(const std::vector<Sequence>& sequences) const {
  const int tile_tokens = std::max(1, kTileRows / group_);
  std::vector<Tile> tiles;
  for (const Sequence& sequence : sequences) {
    for (int t = 0; t < sequence.n_tokens; t += tile_tokens) {
      const int n = std::min(tile_tokens, sequence.n_tokens - t);
      for (int h = 0; h < spec_.n_kv_heads; ++h) {
        tiles.push_back({.sequence = &sequence,
                         .kv_head = h,
                         .first_token = t,
                         .n_tokens = n,
                         .begin = WindowStart(sequence.first_position + t),
                         .end = sequence.first_position + t + n});
      }
    }
  }
  std::ranges::stable_sort(tiles, std::ranges::greater(), [](const Tile& tile) {
    return (tile.end - tile.begin) * tile.n_tokens;
  });
  return tiles;
}

void LayerAttention::AttendAll(std::vector<Tile> tiles) {
  const bool few = static_cast<int>(tiles.size()) < kTilesPerThread * pool_.size();
  const bool long_enough = std::ranges::any_of(
      tiles, [](const Tile& tile) { return EndChunk(tile) - FirstChunk(tile) > 1; });
  if (pool_.size() > 1 && few && long_enough) {
    AttendInParts(tiles);
    return;
  }
  pool_.ParallelFor(static_cast<int>(tiles.size()),
                    [&](int i) { AttendWhole(tiles[static_cast<std::size_t>(i)]); });
}

void LayerAttention::AttendInParts(std::vector<Tile>& tiles) {
  struct Part {
    const Tile* tile;
    std::int64_t chunk;
    OwnedSums sums;
  };
  std::vector<Part> parts;
  for (Tile& tile : tiles) {
    tile.first_part = static_cast<int>(parts.size());
    for (std::int64_t chunk = FirstChunk(tile); chunk < EndChunk(tile); ++chunk) {
      parts.push_back({.tile = &tile, .chunk = chunk, .sums = {}});
    }
  }
  pool_.ParallelFor(static_cast<int>(parts.size()), [&](int i) {
    Part& part = parts[static_cast<std::size_t>(i)];
    Workspace& workspace = ThisThreadsWorkspace();
    PrepareQ(*part.tile, workspace);
    part.sums.Resize(Rows(*part.tile), spec_.head_dim);
    AttendPart(*part.tile, part.chunk, workspace, part.sums.View());
  });
  pool_.ParallelFor(static_cast<int>(tiles.size()), [&](int i) {
    const Tile& tile = tiles[static_cast<std::size_t>(i)];
    const auto first = static_cast<std::size_t>(tile.first_part);
    const SoftmaxSums total = parts[first].sums.View();
    for (std::int64_t n = 1; n < EndChunk(tile) - FirstChunk(tile); ++n) {
      kernels_.fold(total, parts[first + static_cast<std::size_t>(n)].sums.View(), Rows(tile),
                    spec_.head_dim);
    }
    Finish(tile, total);
  });
}

void LayerAttention::AttendWhole(const Tile& tile) const {
  Workspace& workspace = ThisThreadsWorkspace();
  PrepareQ(tile, workspace);
  workspace.total.Resize(Rows(tile), spec_.head_dim);
  const SoftmaxSums total = workspace.total.View();
  AttendPart(tile, FirstChunk(tile), workspace, total);
  for (std::int64_t chunk = FirstChunk(tile) + 1; chunk < EndChunk(tile); ++chunk) {
    workspace.chunk.Resize(Rows(tile), spec_.head_dim);
    AttendPart(tile, chunk, workspace, workspace.chunk.View());
    kernels_.fold(total, workspace.chunk.View(), Rows(tile), spec_.head_dim);
  }
  Finish(tile, total);
}

void LayerAttention::PrepareQ(const Tile& tile, Workspace& workspace) const {
  workspace.q.Resize(static_cast<std::size_t>(Rows(tile)) *
                     static_cast<std::size_t>(spec_.head_dim));
  float* out = workspace.q.data();
  for (int t = 0; t < tile.n_tokens; ++t) {
    const std::ptrdiff_t row = tile.sequence->first_row + tile.first_token + t;
    for (int g = 0; g < group_; ++g, out += spec_.head_dim) {
      HeadInput input = InputOf(row, Head(row, tile.kv_head * group_ + g));
      input.norm_weight = inputs_.q_norm;
      input.scale = spec_.scale * kLog2E;
      kernels_.prepare_head(input, out);
    }
  }
}

void LayerAttention::AttendPart(const Tile& tile, std::int64_t chunk, Workspace& workspace,
                                const SoftmaxSums& sums) const {
  const auto rows = static_cast<std::size_t>(Rows(tile));
  workspace.scores.Resize(rows * kBlockTokens);
  workspace.block.Resize(static_cast<std::size_t>(kBlockTokens) *
                         static_cast<std::size_t>(spec_.head_dim));
  const AttentionTile kernel_tile{
      .q = workspace.q.data(),
      .n_rows = Rows(tile),
      .group = group_,
      .head_dim = spec_.head_dim,
      .first_position = tile.sequence->first_position + tile.first_token,
      .window = spec_.window,
      .blocks = tile.sequence->blocks.data(),
      .head_offset = HeadOffset(tile.kv_head),
      .dtype = dtype_};
  kernels_.attend(kernel_tile, chunk * kChunkTokens, (chunk + 1) * kChunkTokens,
                  {.scores = workspace.scores.data(), .block = workspace.block.data()}, sums);
}

void LayerAttention::Finish(const Tile& tile, const SoftmaxSums& sums) const {
  std::ptrdiff_t r = 0;
  for (int t = 0; t < tile.n_tokens; ++t) {
    const std::ptrdiff_t row = tile.sequence->first_row + tile.first_token + t;
    for (int g = 0; g < group_; ++g, ++r) {
      const int head = tile.kv_head * group_ + g;
      float* const out =
          inputs_.out + (row * spec_.n_heads + head) * static_cast<std::ptrdiff_t>(spec_.head_dim);
      // Scores are in units of log 2. A sink far above them all makes the sum infinite and the row
      // 0.
      const float sum = inputs_.sinks != nullptr
                            ? sums.sum[r] + std::exp2(inputs_.sinks[head] * kLog2E - sums.max[r])
                            : sums.sum[r];
      kernels_.finish(sums.acc + r * spec_.head_dim, sum, spec_.head_dim, out);
    }
  }
}

// Addresses instead of ids: they stay the same as long as the blocks are allocated.
std::vector<Sequence> Resolve(const AttentionSpec& spec, const StepBatch& batch, KvStore& store) {
  const KvStore::LayerPlace place = store.PlaceOf(spec.layer);
  std::vector<Sequence> sequences;
  for (const SequenceRows& rows : batch.sequences) {
    Sequence& sequence = sequences.emplace_back(Sequence{.first_row = rows.first_row,
                                                         .n_tokens = rows.n_tokens,
                                                         .first_position = rows.first_position,
                                                         .blocks = {}});
    for (const BlockId block : rows.block_tables[static_cast<std::size_t>(place.group)]) {
      sequence.blocks.push_back(
          block == kNoBlock ? nullptr : store.LayerData(place.group, block, place.index));
    }
  }
  return sequences;
}

}  // namespace

mx::array NativeAttention(const Context& context, const AttentionSpec& spec, const mx::array& qkv,
                          const mx::array& angles, const std::optional<mx::array>& q_norm,
                          const std::optional<mx::array>& k_norm, const StepBatch& batch,
                          KvStore& store, const std::optional<mx::array>& sinks) {
  assert(spec.head_dim % 16 == 0 && spec.n_heads % spec.n_kv_heads == 0);
  std::vector<mx::array> inputs{qkv, angles};
  const std::size_t q_norm_at = inputs.size();
  if (q_norm) {
    inputs.push_back(*q_norm);
  }
  const std::size_t k_norm_at = inputs.size();
  if (k_norm) {
    inputs.push_back(*k_norm);
  }
  const std::size_t sinks_at = inputs.size();
  if (sinks) {
    inputs.push_back(*sinks);
  }
  return NativeOp(inputs, {qkv.shape(0), spec.n_heads * spec.head_dim}, mx::float32,
                  [context, spec, dtype = store.spec().dtype,
                   sequences = Resolve(spec, batch, store), q_norm_at = q_norm ? q_norm_at : 0,
                   k_norm_at = k_norm ? k_norm_at : 0, sinks_at = sinks ? sinks_at : 0](
                      const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                    const LayerAttention::Inputs memory{
                        .qkv = in[0].data<float>(),
                        .angles = in[1].data<float>(),
                        .rotary_dim = in[1].shape(-1),
                        .q_norm = q_norm_at != 0 ? in[q_norm_at].data<float>() : nullptr,
                        .k_norm = k_norm_at != 0 ? in[k_norm_at].data<float>() : nullptr,
                        .sinks = sinks_at != 0 ? in[sinks_at].data<float>() : nullptr,
                        .out = out[0].data<float>()};
                    LayerAttention(context, spec, dtype, memory).Run(sequences);
                  });
}

}  // namespace ops
