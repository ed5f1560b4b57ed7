#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "ops/linear/coding.h"
#include "ops/linear/kernels.h"
#include "ops/thread_pool.h"

namespace ops::linear {

// 64-byte aligned memory.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size);  // uninitialised

  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

// One part of a Linear, packed for the kernels in tiles of 16 outputs; the last tile is padded with
// zeros.
//
// A coded tile, each section from a multiple of 64 bytes on:
//   scales      [n_in / scale_group][16] f16, bf16 or f32   (kSuper: super scales [n_in / 256][16]
//   f16) biases      likewise, affine only sub_scales  [n_in / scale_group][16] int8, kSuper only
//   sub_biases  likewise, affine only
//   codes       per 32 inputs; byte 4 c + b of a 64-byte vector belongs to channel c
//     8 bits: 8 vectors; vector v holds inputs 4 v + b
//     4 bits: 4 vectors; vector v holds input 4 v + b in the low nibble, 16 + 4 v + b in the high
//     one
// A float tile: [n_in][16] in the stored type; before it for kF8E4M3
//   scales      [n_in / 128, rounded up][16] f32, times 2^8; NaN where a weight of the 128 is NaN
// The layout is the same for all instruction sets.
class PackedMatrix {
 public:
  // Reads every row of `source` once. REQUIRES: CheckSource accepted it.
  PackedMatrix(const WeightSource& source, ThreadPool& pool);

  [[nodiscard]] int n_in() const { return n_in_; }
  [[nodiscard]] int n_out() const { return n_out_; }
  [[nodiscard]] int n_tiles() const { return (n_out_ + kTile - 1) / kTile; }
  [[nodiscard]] bool is_float() const { return IsFloat(format_); }
  [[nodiscard]] WeightFormat format() const { return format_; }
  [[nodiscard]] const Coding& coding() const { return coding_; }
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }

  // Coded matrices.
  [[nodiscard]] PackedScales Scales(int tile) const;
  // Lets `product` read the scales where they are stored, from `first_input` (a multiple of 256)
  // on; false when they have a form that only expand_scales knows.
  [[nodiscard]] bool PointAtScales(int tile, int first_input, TileProduct& product) const;
  [[nodiscard]] const std::uint8_t* Codes(int tile) const;
  [[nodiscard]] int group_bytes() const { return coding_.packed_bits() * kGroup * kTile / 8; }

  // Float matrices: [n_in][16].
  [[nodiscard]] const std::byte* Floats(int tile) const { return Tile(tile) + layout_.codes; }
  // Of inputs [first, first + 128), [16]; null for formats without scales.
  [[nodiscard]] const float* FloatScales(int tile, int first) const;

  // Output row `row` as float32: scale * (code - zero), or fma(scale, code, bias), rounded once.
  void CopyRow(int row, float* out) const;

 private:
  struct Layout {  // byte offsets of the sections in a tile
    std::size_t biases = 0;
    std::size_t sub_scales = 0;
    std::size_t sub_biases = 0;
    std::size_t codes = 0;
    std::size_t size = 0;
  };
  [[nodiscard]] Layout MakeLayout() const;
  [[nodiscard]] const std::byte* Tile(int tile) const {
    return memory_.data() + static_cast<std::size_t>(tile) * layout_.size;
  }
  void PackFloatTile(const WeightSource& source, int tile);
  void PackFloatScales(const WeightSource& source, int row, std::byte* scales) const;
  void PackCodedTile(const WeightSource& source, int tile);
  void PackChannel(const CodedRow& row, std::byte* tile, int channel) const;
  void CopyFloatRow(int tile, int channel, float* out) const;
  void CopyCodedRow(int tile, int channel, float* out) const;

  WeightFormat format_;
  int n_in_;
  int n_out_;
  Coding coding_;
  Layout layout_;
  AlignedBytes memory_;
};

}  // namespace ops::linear
