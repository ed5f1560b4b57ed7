#include "ops/linear/native_product.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

namespace ops::linear {
namespace {

// Inputs of a float chunk: 32 KiB of float32 weights at most.
constexpr int kFloatChunk = 512;
// Rows of a super block: with kChunk inputs each 512 KiB of activations, which the L2 cache keeps
// for all tiles of a unit.
constexpr int kSuperRows = 512;
// Tiles of a unit when several row blocks pass them; more would only make the ends uneven.
constexpr int kMaxUnitTiles = 8;
// Tasks a thread: few enough to cost nothing, enough to even out threads of unlike speed.
constexpr int kTasksPerThread = 8;

std::size_t Size(int n) { return static_cast<std::size_t>(n); }

int DivideUp(int a, int b) { return (a + b - 1) / b; }

Product ProductOf(const Coding& coding) {
  if (coding.scale_group == 16) {
    return Product::kSymmetric16;  // biases are added after it
  }
  return coding.affine ? Product::kAffine : Product::kSymmetric;
}

int BlocksPerSuper(const RowBlocks& blocks) { return std::max(1, kSuperRows / blocks.rows); }

int SupersOf(const RowBlocks& blocks) { return DivideUp(blocks.n_blocks, BlocksPerSuper(blocks)); }

int SupersOf(const NativeProduct::Inputs& inputs) {
  return std::max(inputs.coded ? SupersOf(inputs.coded->blocks()) : 1,
                  inputs.floats ? SupersOf(inputs.floats->blocks()) : 1);
}

BlockRange BlocksOf(const RowBlocks& blocks, int super) {
  const int step = BlocksPerSuper(blocks);
  return {.first = super * step, .end = std::min(blocks.n_blocks, (super + 1) * step)};
}

}  // namespace

// Consecutive tiles of one part: what a task works on.
struct NativeProduct::Unit {
  std::size_t part = 0;
  int first_tile = 0;
  int end_tile = 0;
};

// The inputs of one tile that fit into scratch, from first_input on.
struct NativeProduct::Chunk {
  std::size_t part = 0;
  int tile = 0;
  int first_input = 0;
};

NativeProduct::NativeProduct(std::vector<PackedMatrix> parts, std::vector<float> bias,
                             const Kernels& kernels, ThreadPool& pool)
    : parts_(std::move(parts)), bias_(std::move(bias)), kernels_(kernels), pool_(pool) {
  for (const PackedMatrix& part : parts_) {
    first_out_.push_back(n_out_);
    n_out_ += part.n_out();
    const OffsetKind kind = KindOf(part);
    auto found = std::find(kinds_.begin(), kinds_.end(), kind);
    part_kind_.push_back(static_cast<std::size_t>(found - kinds_.begin()));
    if (found == kinds_.end() && !part.is_float()) {
      kinds_.push_back(kind);
    }
  }
}

OffsetKind NativeProduct::KindOf(const PackedMatrix& part) const {
  const Coding& coding = part.coding();
  return {.factor = kernels_.code_bias(coding.code_bits) - coding.zero,
          .sixteen = coding.scale_group == 16};
}

std::uint64_t NativeProduct::bytes() const {
  std::uint64_t sum = bias_.size() * sizeof(float);
  for (const PackedMatrix& part : parts_) {
    sum += part.bytes();
  }
  return sum;
}

NativeProduct::Unit NativeProduct::FindUnit(int index, int tiles_per_unit) const {
  std::size_t part = 0;
  while (index >= DivideUp(parts_[part].n_tiles(), tiles_per_unit)) {
    index -= DivideUp(parts_[part].n_tiles(), tiles_per_unit);
    ++part;
  }
  const int first = index * tiles_per_unit;
  return {.part = part,
          .first_tile = first,
          .end_tile = std::min(first + tiles_per_unit, parts_[part].n_tiles())};
}

NativeProduct::Inputs NativeProduct::Prepare(const float* x, int n_rows, ThreadPool& pool) const {
  Inputs inputs;
  for (const PackedMatrix& part : parts_) {
    if (part.is_float() && !inputs.floats) {
      inputs.floats.emplace(x, RowBlocks(n_rows, kernels_.float_rows), n_in(), pool);
    } else if (!part.is_float() && !inputs.coded) {
      inputs.coded.emplace(x, RowBlocks(n_rows, kernels_.coded_rows), n_in(), kernels_, kinds_,
                           pool);
    }
  }
  return inputs;
}

int NativeProduct::n_tiles() const {
  int n_tiles = 0;
  for (const PackedMatrix& part : parts_) {
    n_tiles += part.n_tiles();
  }
  return n_tiles;
}

void NativeProduct::MultiplyTiles(const Inputs& inputs, int first, int end, float* y) const {
  const int n_supers = SupersOf(inputs);
  int before = 0;  // tiles of the parts before
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const Unit unit{.part = part,
                    .first_tile = std::max(0, first - before),
                    .end_tile = std::min(parts_[part].n_tiles(), end - before)};
    for (int super = 0; unit.first_tile < unit.end_tile && super < n_supers; ++super) {
      RunUnit(inputs, unit, super, y);
    }
    before += parts_[part].n_tiles();
  }
}

void NativeProduct::Multiply(const float* x, int n_rows, float* y) const {
  if (n_rows == 0) {
    return;
  }
  const Inputs inputs = Prepare(x, n_rows, pool_);
  const int n_supers = SupersOf(inputs);
  const int wanted_tasks = pool_.size() * kTasksPerThread;
  int tiles_per_unit = std::max(1, DivideUp(n_tiles() * n_supers, wanted_tasks));
  if (n_rows > kMaxRows) {
    tiles_per_unit = std::min(tiles_per_unit, kMaxUnitTiles);
  }
  int n_units = 0;
  for (const PackedMatrix& part : parts_) {
    n_units += DivideUp(part.n_tiles(), tiles_per_unit);
  }
  pool_.ParallelFor(n_units * n_supers, [&](int task) {
    RunUnit(inputs, FindUnit(task % n_units, tiles_per_unit), task / n_units, y);
  });
}

void NativeProduct::RunUnit(const Inputs& inputs, const Unit& unit, int super, float* y) const {
  if (parts_[unit.part].is_float()) {
    if (super < SupersOf(inputs.floats->blocks())) {
      RunFloat(*inputs.floats, unit, super, y);
    }
    return;
  }
  if (super >= SupersOf(inputs.coded->blocks())) {
    return;
  }
  // One row block: tile after tile, as they lie in memory. More: some tiles share a chunk of
  // activations.
  if (inputs.coded->blocks().n_blocks == 1) {
    for (int tile = unit.first_tile; tile < unit.end_tile; ++tile) {
      RunCodedTile(*inputs.coded, unit.part, tile, super, y);
    }
    return;
  }
  for (int tile = unit.first_tile; tile < unit.end_tile; tile += kMaxUnitTiles) {
    RunCoded(*inputs.coded,
             {.part = unit.part,
              .first_tile = tile,
              .end_tile = std::min(tile + kMaxUnitTiles, unit.end_tile)},
             super, y);
  }
}

void NativeProduct::RunCodedTile(const QuantizedRows& x, std::size_t part, int tile, int super,
                                 float* y) const {
  const BlockRange range = BlocksOf(x.blocks(), super);
  std::vector<float> aside;
  const TileSums sums = MakeSums(part, tile, x.blocks(), range, y, aside);
  for (int first = 0; first < n_in(); first += kChunk) {
    RunChunk(x, range, {.part = part, .tile = tile, .first_input = first}, sums);
  }
  sums.Finish(Bias(part, tile));
}

void NativeProduct::RunCoded(const QuantizedRows& x, const Unit& unit, int super, float* y) const {
  const BlockRange range = BlocksOf(x.blocks(), super);
  std::array<TileSums, kMaxUnitTiles> sums;
  std::vector<float> aside;
  for (int tile = unit.first_tile; tile < unit.end_tile; ++tile) {
    sums[Size(tile - unit.first_tile)] = MakeSums(unit.part, tile, x.blocks(), range, y, aside);
  }
  for (int first = 0; first < n_in(); first += kChunk) {
    for (int tile = unit.first_tile; tile < unit.end_tile; ++tile) {
      RunChunk(x, range, {.part = unit.part, .tile = tile, .first_input = first},
               sums[Size(tile - unit.first_tile)]);
    }
  }
  for (int tile = unit.first_tile; tile < unit.end_tile; ++tile) {
    sums[Size(tile - unit.first_tile)].Finish(Bias(unit.part, tile));
  }
}

void NativeProduct::RunChunk(const QuantizedRows& x, const BlockRange& range, const Chunk& chunk,
                             const TileSums& sums) const {
  alignas(64) std::uint8_t codes[kChunk * kTile];
  alignas(64) float scales[kChunk / 16 * kTile];
  alignas(64) float biases[kChunk / 16 * kTile];
  const PackedMatrix& part = parts_[chunk.part];
  const Coding& coding = part.coding();
  const int n_inputs = std::min(kChunk, n_in() - chunk.first_input);
  TileProduct product{
      .product = ProductOf(coding),
      .code_bits = coding.code_bits,
      .stored_bits = coding.packed_bits(),
      .fp4 = coding.fp4,
      .n_groups = n_inputs / kGroup,
      .codes = part.Codes(chunk.tile) + Size(chunk.first_input / kGroup) * Size(part.group_bytes()),
      .scales = scales,
      .biases = biases,
      .acc_stride = sums.stride(),
      .fresh = chunk.first_input == 0};
  const bool once = range.end - range.first == 1;
  if (!once || !part.PointAtScales(chunk.tile, chunk.first_input, product)) {
    kernels_.expand_scales(part.Scales(chunk.tile),
                           {.kind = coding.scale_kind,
                            .scale_group = coding.scale_group,
                            .first_input = chunk.first_input,
                            .n_inputs = n_inputs},
                           scales, biases);
  }
  if (once) {
    const std::size_t read = Size(product.n_groups) * Size(part.group_bytes());
    product.next = reinterpret_cast<const std::byte*>(product.codes) + read;
    product.next_lines = DivideUp(part.group_bytes() + kTile * 4, 64);
  }
  if (product.stored_bits == 4 && !once) {  // pays when several row blocks read them
    kernels_.expand_codes(product.codes, product.n_groups, coding.fp4, codes);
    product.codes = codes;
    product.stored_bits = 8;
  }
  for (int block = range.first; block < range.end; ++block) {
    x.Point(block, chunk.first_input, part_kind_[chunk.part], product);
    product.acc = sums.At(x.blocks().first_row(block) - x.blocks().first_row(range.first));
    kernels_.multiply(x.blocks().rows_of(block), product);
    if (coding.affine && coding.scale_group == 16) {
      AddBiases16(x, block, {.first_input = chunk.first_input, .n_inputs = n_inputs}, biases,
                  product);
    }
  }
}

// acc = fma(bias, sum of x, acc) over groups of 16 inputs in ascending order: the float kernels'
// work, with the groups for inputs.
void NativeProduct::AddBiases16(const QuantizedRows& x, int block, const Inputs16& inputs,
                                const float* biases, const TileProduct& product) const {
  alignas(64) float sums[kChunk / 16 * kMaxRows];
  alignas(64) float some[kChunk / 16 * kMaxRows];
  const int rows = x.blocks().rows_of(block);
  const int n_groups = inputs.n_inputs / 16;
  x.ScaledSums16(block, inputs.first_input, n_groups, sums);
  for (int first = 0; first < rows; first += kernels_.float_rows) {
    const int n = std::min(kernels_.float_rows, rows - first);
    for (int g = 0; g < n_groups; ++g) {
      std::copy_n(sums + g * rows + first, n, some + g * n);
    }
    kernels_.multiply_float(n, {.format = WeightFormat::kF32,
                                .n_in = n_groups,
                                .weights = reinterpret_cast<const std::byte*>(biases),
                                .x = some,
                                .acc = product.acc + first * product.acc_stride,
                                .acc_stride = product.acc_stride,
                                .fresh = false});
  }
}

void NativeProduct::RunFloat(const TransposedRows& x, const Unit& unit, int super, float* y) const {
  const PackedMatrix& part = parts_[unit.part];
  const RowBlocks& blocks = x.blocks();
  const BlockRange range = BlocksOf(blocks, super);
  const bool scaled = part.format() == WeightFormat::kF8E4M3;
  const int chunk = scaled ? kFloatScaleBlock : kFloatChunk;
  const std::size_t input_bytes = kTile * (scaled                                ? 1
                                           : part.format() == WeightFormat::kF32 ? 4
                                                                                 : 2);
  std::vector<float> aside;
  for (int tile = unit.first_tile; tile < unit.end_tile; ++tile) {
    const TileSums sums = MakeSums(unit.part, tile, blocks, range, y, aside);
    FloatProduct product{.format = part.format(), .acc_stride = sums.stride()};
    for (int first = 0; first < n_in(); first += chunk) {
      product.n_in = std::min(chunk, n_in() - first);
      product.fresh = first == 0;
      product.weights = part.Floats(tile) + Size(first) * input_bytes;
      for (int block = range.first; block < range.end; ++block) {
        product.x = x.At(block, first);
        product.acc = sums.At(blocks.first_row(block) - blocks.first_row(range.first));
        if (scaled) {
          MultiplyScaled(blocks.rows_of(block), product, part.FloatScales(tile, first));
        } else {
          kernels_.multiply_float(blocks.rows_of(block), product);
        }
      }
    }
    sums.Finish(Bias(unit.part, tile));
  }
}

void NativeProduct::MultiplyScaled(int rows, const FloatProduct& product,
                                   const float* scales) const {
  alignas(64) float block_sums[kMaxRows * kTile];
  FloatProduct block = product;
  block.acc = block_sums;
  block.acc_stride = kTile;
  block.fresh = true;
  kernels_.multiply_float(rows, block);
  for (int r = 0; r < rows; ++r) {
    float* const acc = product.acc + r * product.acc_stride;
    const float* const sums = block_sums + r * kTile;
    for (int c = 0; c < kTile; ++c) {
      const float term = sums[c] * scales[c];
      acc[c] = product.fresh ? term : acc[c] + term;
    }
  }
}

TileSums NativeProduct::MakeSums(std::size_t part, int tile, const RowBlocks& blocks,
                                 const BlockRange& range, float* y,
                                 std::vector<float>& aside) const {
  const int channels = std::min(kTile, parts_[part].n_out() - tile * kTile);
  const int first_row = blocks.first_row(range.first);
  const int n_rows = std::min(blocks.n_rows, range.end * blocks.rows) - first_row;
  if (channels < kTile) {
    aside.resize(Size(n_rows) * kTile);
  }
  return {y + static_cast<std::ptrdiff_t>(first_row) * n_out_ + first_out_[part] + tile * kTile,
          n_out_, n_rows, channels, aside.data()};
}

const float* NativeProduct::Bias(std::size_t part, int tile) const {
  return bias_.empty() ? nullptr : bias_.data() + first_out_[part] + tile * kTile;
}

void NativeProduct::CopyRow(int row, float* out) const {
  assert(row >= 0 && row < n_out_);
  for (std::size_t part = 0; part < parts_.size() && row >= 0; ++part) {
    const int in_part = row - first_out_[part];
    if (in_part >= 0 && in_part < parts_[part].n_out()) {
      parts_[part].CopyRow(in_part, out);
      return;
    }
  }
  std::fill_n(out, n_in(), 0.0F);
}

}  // namespace ops::linear
