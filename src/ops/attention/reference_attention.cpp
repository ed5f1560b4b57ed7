#include "ops/attention/reference_attention.h"

#include <mlx/fast.h>
#include <mlx/ops.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/rope/rope.h"
#include "ops/vector/saturated_half.h"

namespace ops {
namespace {

namespace mx = mlx::core;

mx::array BytesOf(const mx::array& x) { return mx::view(mx::contiguous(x), mx::uint8); }

mx::array Clamped(const mx::array& x) {
  return mx::clip(x, mx::array(-kLargestHalf), mx::array(kLargestHalf));
}

// a / b, 0 where b is 0.
mx::array SafeQuotient(float a, const mx::array& b) {
  const mx::array zero(0.0F);
  return mx::where(mx::greater(b, zero), mx::divide(mx::array(a), b), zero);
}

// [.., head_dim] as [.., head_dim numbers | 4 bytes of the scale].
mx::array PackedI8(const mx::array& x) {
  const mx::array clamped = Clamped(x);
  const mx::array largest = mx::max(mx::abs(clamped), -1, /*keepdims=*/true);
  const mx::array scaled = mx::multiply(clamped, SafeQuotient(127.0F, largest));
  const mx::array numbers =
      mx::astype(mx::round(mx::clip(scaled, mx::array(-127.0F), mx::array(127.0F))), mx::int8);
  const mx::array scale = mx::divide(largest, mx::array(127.0F));
  return mx::concatenate({BytesOf(numbers), BytesOf(scale)}, -1);
}

mx::array UnpackedI8(const mx::array& packed, int head_dim) {
  mx::Shape end = packed.shape();
  mx::Shape begin(end.size(), 0);
  begin.back() = head_dim;
  const mx::array scale = mx::view(mx::contiguous(mx::slice(packed, begin, end)), mx::float32);
  begin.back() = 0;
  end.back() = head_dim;
  const mx::array numbers = mx::view(mx::contiguous(mx::slice(packed, begin, end)), mx::int8);
  return mx::multiply(mx::astype(numbers, mx::float32), scale);
}

// [.., head_dim] as [.., head_dim / 2 bytes of two numbers | groups x (scale, minimum)].
mx::array PackedI4(const mx::array& x) {
  mx::Shape grouped = x.shape();
  grouped.back() /= kI4Group;
  grouped.push_back(kI4Group);
  const mx::array groups = mx::reshape(Clamped(x), grouped);
  const mx::array least = mx::min(groups, -1, /*keepdims=*/true);
  const mx::array range = mx::subtract(mx::max(groups, -1, /*keepdims=*/true), least);
  const mx::array scale = mx::astype(mx::divide(range, mx::array(15.0F)), mx::float16);
  const mx::array minimum = mx::astype(least, mx::float16);
  const mx::array scaled = mx::multiply(mx::subtract(groups, mx::astype(minimum, mx::float32)),
                                        SafeQuotient(1.0F, mx::astype(scale, mx::float32)));
  const mx::array numbers =
      mx::astype(mx::round(mx::clip(scaled, mx::array(0.0F), mx::array(15.0F))), mx::uint8);
  const std::vector<mx::array> halves = mx::split(numbers, 2, -1);
  const mx::array bytes =
      mx::bitwise_or(halves[0], mx::left_shift(halves[1], mx::array(4, mx::uint8)));
  const mx::array scales = BytesOf(mx::concatenate({scale, minimum}, -1));
  mx::Shape flat = x.shape();
  flat.back() = -1;
  return mx::concatenate({mx::reshape(bytes, flat), mx::reshape(scales, flat)}, -1);
}

mx::array UnpackedI4(const mx::array& packed, int head_dim) {
  mx::Shape end = packed.shape();
  mx::Shape begin(end.size(), 0);
  begin.back() = head_dim / 2;
  mx::Shape grouped = packed.shape();
  grouped.back() = head_dim / kI4Group;
  grouped.push_back(-1);
  const mx::array scales = mx::astype(
      mx::view(mx::reshape(mx::contiguous(mx::slice(packed, begin, end)), grouped), mx::float16),
      mx::float32);
  begin.back() = 0;
  end.back() = head_dim / 2;
  const mx::array bytes = mx::reshape(mx::contiguous(mx::slice(packed, begin, end)), grouped);
  const mx::array numbers =
      mx::astype(mx::concatenate({mx::bitwise_and(bytes, mx::array(15, mx::uint8)),
                                  mx::right_shift(bytes, mx::array(4, mx::uint8))},
                                 -1),
                 mx::float32);
  const std::vector<mx::array> parts = mx::split(scales, 2, -1);
  mx::Shape flat = packed.shape();
  flat.back() = head_dim;
  return mx::reshape(mx::add(mx::multiply(numbers, parts[0]), parts[1]), flat);
}

// As the reference store keeps it, rounded as the native kernels round it.
mx::array Stored(const mx::array& x, KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32:
      return x;
    case KvDtype::kF16:
      return mx::astype(Clamped(x), mx::float16);
    case KvDtype::kI8:
      return PackedI8(x);
    case KvDtype::kI4:
      return PackedI4(x);
  }
  return x;
}

// What was stored, in float32.
mx::array Read(const mx::array& stored, KvDtype dtype, int head_dim) {
  switch (dtype) {
    case KvDtype::kF32:
    case KvDtype::kF16:
      return mx::astype(stored, mx::float32);
    case KvDtype::kI8:
      return UnpackedI8(stored, head_dim);
    case KvDtype::kI4:
      return UnpackedI4(stored, head_dim);
  }
  return stored;
}

// One sequence's share of the step, one layer. Positions are of the sequence.
class SequenceAttention {
 public:
  SequenceAttention(const AttentionSpec& spec, const SequenceRows& rows, KvStore& store)
      : spec_(spec),
        store_(store),
        place_(store.PlaceOf(spec.layer)),
        table_(rows.block_tables[static_cast<std::size_t>(place_.group)]),
        first_(rows.first_position),
        end_(rows.first_position + rows.n_tokens) {}

  // k, v: [n_tokens, n_kv_heads, ...], as the store keeps them.
  void Store(const mx::array& k, const mx::array& v) {
    for (std::int64_t p = first_; p < end_;) {
      const std::int64_t stop = std::min(end_, (p / kBlockTokens + 1) * kBlockTokens);
      KvStore::BlockArrays& block = Block(p / kBlockTokens);
      block.k = Inserted(block.k, k, p, stop);
      block.v = Inserted(block.v, v, p, stop);
      p = stop;
    }
  }

  // q: [n_tokens, n_heads, head_dim] float32. Returns the same shape.
  [[nodiscard]] mx::array Attend(const mx::array& q, const std::optional<mx::array>& sinks) {
    const std::int64_t from = WindowStart(first_) / kBlockTokens * kBlockTokens;
    const mx::array k = SeenBlocks(from, [](const KvStore::BlockArrays& block) { return block.k; });
    const mx::array v = SeenBlocks(from, [](const KvStore::BlockArrays& block) { return block.v; });
    const mx::array out = mx::fast::scaled_dot_product_attention(HeadsFirst(q), k, v, spec_.scale,
                                                                 "array", Mask(from), sinks);
    return mx::transpose(mx::squeeze(out, 0), {1, 0, 2});
  }

 private:
  [[nodiscard]] KvStore::BlockArrays& Block(std::int64_t index) {
    return store_.Arrays(place_.group, table_[static_cast<std::size_t>(index)], place_.index);
  }

  [[nodiscard]] std::int64_t WindowStart(std::int64_t position) const {
    return spec_.window == 0 ? 0 : std::max<std::int64_t>(0, position - spec_.window + 1);
  }

  // `block` with the tokens [begin, end) of `tokens`, whose first is at position first_.
  [[nodiscard]] mx::array Inserted(const mx::array& block, const mx::array& tokens,
                                   std::int64_t begin, std::int64_t end) const {
    const int n_kv_heads = spec_.n_kv_heads;
    const int slot = static_cast<int>(begin % kBlockTokens);
    const mx::array part = mx::slice(tokens, {static_cast<int>(begin - first_), 0, 0},
                                     {static_cast<int>(end - first_), n_kv_heads, tokens.shape(2)});
    return mx::slice_update(
        block, part, mx::Shape{slot, 0, 0},
        mx::Shape{slot + static_cast<int>(end - begin), n_kv_heads, tokens.shape(2)});
  }

  // The positions [from, end_): [1, n_kv_heads, n, head_dim] float32.
  template <class Part>
  [[nodiscard]] mx::array SeenBlocks(std::int64_t from, const Part& part) {
    std::vector<mx::array> blocks;
    for (std::int64_t p = from; p < end_; p += kBlockTokens) {
      blocks.push_back(part(Block(p / kBlockTokens)));
    }
    const mx::array all = mx::concatenate(std::move(blocks), 0);
    const mx::array seen =
        mx::slice(all, {0, 0, 0}, {static_cast<int>(end_ - from), spec_.n_kv_heads, all.shape(2)});
    return HeadsFirst(Read(seen, store_.spec().dtype, spec_.head_dim));
  }

  [[nodiscard]] static mx::array HeadsFirst(const mx::array& x) {
    return mx::expand_dims(mx::transpose(x, {1, 0, 2}), 0);
  }

  // True where the row may see the position: [n_tokens, n].
  [[nodiscard]] mx::array Mask(std::int64_t from) const {
    const mx::array rows = mx::expand_dims(
        mx::arange(static_cast<double>(first_), static_cast<double>(end_), 1.0, mx::int32), 1);
    const mx::array positions = mx::expand_dims(
        mx::arange(static_cast<double>(from), static_cast<double>(end_), 1.0, mx::int32), 0);
    const mx::array causal = mx::less_equal(positions, rows);
    if (spec_.window == 0) {
      return causal;
    }
    return mx::logical_and(causal,
                           mx::greater(positions, mx::subtract(rows, mx::array(spec_.window))));
  }

  const AttentionSpec& spec_;
  KvStore& store_;
  KvStore::LayerPlace place_;
  const std::vector<BlockId>& table_;
  std::int64_t first_;
  std::int64_t end_;
};

mx::array Heads(const mx::array& qkv, int begin, int n_heads, int head_dim) {
  const int n_rows = qkv.shape(0);
  return mx::reshape(mx::slice(qkv, {0, begin * head_dim}, {n_rows, (begin + n_heads) * head_dim}),
                     {n_rows, n_heads, head_dim});
}

mx::array RowsOf(const mx::array& x, const SequenceRows& rows) {
  return mx::slice(x, {rows.first_row, 0, 0},
                   {rows.first_row + rows.n_tokens, x.shape(1), x.shape(2)});
}

}  // namespace

mx::array ReferenceAttention(const AttentionSpec& spec, const mx::array& qkv,
                             const mx::array& angles, const std::optional<mx::array>& q_norm,
                             const std::optional<mx::array>& k_norm, const StepBatch& batch,
                             KvStore& store, const std::optional<mx::array>& sinks) {
  const Context reference{.path = KernelPath::kReference};
  mx::array q = Heads(qkv, 0, spec.n_heads, spec.head_dim);
  mx::array k = Heads(qkv, spec.n_heads, spec.n_kv_heads, spec.head_dim);
  if (q_norm) {
    q = mx::fast::rms_norm(q, *q_norm, spec.norm_eps);
  }
  if (k_norm) {
    k = mx::fast::rms_norm(k, *k_norm, spec.norm_eps);
  }
  q = Rope(reference, q, angles);
  k = Stored(Rope(reference, k, angles), store.spec().dtype);
  const mx::array v =
      Stored(Heads(qkv, spec.n_heads + spec.n_kv_heads, spec.n_kv_heads, spec.head_dim),
             store.spec().dtype);
  std::vector<mx::array> outputs;
  for (const SequenceRows& rows : batch.sequences) {
    SequenceAttention sequence(spec, rows, store);
    sequence.Store(RowsOf(k, rows), RowsOf(v, rows));
    outputs.push_back(sequence.Attend(RowsOf(q, rows), sinks));
  }
  return mx::reshape(mx::concatenate(std::move(outputs), 0),
                     {qkv.shape(0), spec.n_heads * spec.head_dim});
}

}  // namespace ops
