#include "ops/linear/head_linear.h"

#include <fmt/format.h>
#include <mlx/device.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "ops/linear/coding.h"
#include "ops/linear/native_product.h"
#include "ops/native_op.h"

namespace ops {
namespace {

namespace mx = mlx::core;

class NativeHeadLinear final : public HeadLinear {
 public:
  NativeHeadLinear(const Context& context, std::vector<linear::NativeProduct> heads)
      : context_(context), heads_(std::move(heads)) {}

  std::uint64_t bytes() const override {
    std::uint64_t sum = 0;
    for (const linear::NativeProduct& head : heads_) {
      sum += head.bytes();
    }
    return sum;
  }

  mx::array operator()(const mx::array& x) const override {
    const auto n_heads = static_cast<int>(heads_.size());
    return NativeOp({x}, {x.shape(0), n_heads, heads_.front().n_out()}, mx::float32,
                    [&](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                      context_.pool->ParallelFor(n_heads, [&](int head) {
                        Multiply(head, in[0].data<float>(), in[0].shape(0), out[0].data<float>());
                      });
                    });
  }

 private:
  // One head of all rows, through rows of its own: the product's lie one after the other.
  void Multiply(int head, const float* x, int n_rows, float* y) const {
    const linear::NativeProduct& product = heads_[static_cast<std::size_t>(head)];
    const auto n_heads = static_cast<std::ptrdiff_t>(heads_.size());
    const std::ptrdiff_t n_in = product.n_in();
    const std::ptrdiff_t n_out = product.n_out();
    std::vector<float> inputs(static_cast<std::size_t>(n_rows * n_in));
    std::vector<float> outputs(static_cast<std::size_t>(n_rows * n_out));
    for (std::ptrdiff_t row = 0; row < n_rows; ++row) {
      std::copy_n(x + (row * n_heads + head) * n_in, n_in, inputs.data() + row * n_in);
    }
    product.MultiplyTiles(product.Prepare(inputs.data(), n_rows, serial_), 0, product.n_tiles(),
                          outputs.data());
    for (std::ptrdiff_t row = 0; row < n_rows; ++row) {
      std::copy_n(outputs.data() + row * n_out, n_out, y + (row * n_heads + head) * n_out);
    }
  }

  Context context_;
  std::vector<linear::NativeProduct> heads_;
  // What prepares inputs inside a task, which must not share out work itself.
  mutable ThreadPool serial_{1};
};

class ReferenceHeadLinear final : public HeadLinear {
 public:
  explicit ReferenceHeadLinear(mx::array weights) : weights_(std::move(weights)) {}

  std::uint64_t bytes() const override { return weights_.nbytes(); }

  mx::array operator()(const mx::array& x) const override {
    return mx::swapaxes(mx::matmul(mx::swapaxes(x, 0, 1), weights_), 0, 1);
  }

 private:
  mx::array weights_;  // [n_heads, n_in, n_out]
};

Result<void> CheckHeadMatrices(std::span<const WeightSource> heads) {
  for (const WeightSource& head : heads) {
    if (Result<void> ok = linear::CheckSource(head); !ok) {
      return ok;
    }
    if (head.n_in != heads.front().n_in || head.n_out != heads.front().n_out) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("The heads of tensor `{}` have matrices of different shapes.",
                              heads.front().name));
    }
  }
  return {};
}

std::unique_ptr<HeadLinear> MakeNative(const Context& context,
                                       std::span<const WeightSource> heads) {
  std::vector<linear::NativeProduct> products;
  for (const WeightSource& head : heads) {
    std::vector<linear::PackedMatrix> part;
    part.emplace_back(head, *context.pool);
    products.emplace_back(std::move(part), std::vector<float>(),
                          linear::KernelsFor(context.instruction_set), *context.pool);
  }
  return std::make_unique<NativeHeadLinear>(context, std::move(products));
}

std::unique_ptr<HeadLinear> MakeReference(std::span<const WeightSource> heads) {
  const int n_out = heads.front().n_out;
  const int n_in = heads.front().n_in;
  std::vector<float> values;
  std::vector<float> row(static_cast<std::size_t>(n_in));
  for (const WeightSource& head : heads) {
    for (int r = 0; r < n_out; ++r) {
      linear::DecodeValues(head, r, row.data());
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  mx::array weights = mx::contiguous(
      mx::swapaxes(mx::array(values.data(), {static_cast<int>(heads.size()), n_out, n_in}), 1, 2),
      false, mx::Device::cpu);
  weights.eval();
  return std::make_unique<ReferenceHeadLinear>(std::move(weights));
}

}  // namespace

Result<std::unique_ptr<HeadLinear>> MakeHeadLinear(const Context& context,
                                                   std::span<const WeightSource> heads) {
  assert(!heads.empty());
  if (Result<void> ok = CheckHeadMatrices(heads); !ok) {
    return Fail(ok.error());
  }
  try {
    return context.path == KernelPath::kNative ? MakeNative(context, heads) : MakeReference(heads);
  } catch (const std::exception& error) {  // std::bad_alloc, or MLX's own
    return Fail(ErrorCode::kOutOfMemory, fmt::format("Tensor `{}` could not be prepared: {}.",
                                                     heads.front().name, error.what()));
  }
}

Result<std::unique_ptr<HeadLinear>> MakeTurnedHeadLinear(const Context& context,
                                                         std::span<const WeightSource> heads) {
  assert(!heads.empty());
  if (Result<void> ok = CheckHeadMatrices(heads); !ok) {
    return Fail(ok.error());
  }
  const auto n_out = static_cast<std::size_t>(heads.front().n_out);
  const auto n_in = static_cast<std::size_t>(heads.front().n_in);
  std::vector<std::vector<float>> turned;
  std::vector<WeightSource> sources;
  std::vector<float> row(n_in);
  for (const WeightSource& head : heads) {
    std::vector<float>& values = turned.emplace_back(n_out * n_in);
    for (std::size_t r = 0; r < n_out; ++r) {
      linear::DecodeValues(head, static_cast<int>(r), row.data());
      for (std::size_t i = 0; i < n_in; ++i) {
        values[i * n_out + r] = row[i];
      }
    }
    sources.push_back({.name = head.name,
                       .format = WeightFormat::kF32,
                       .n_out = head.n_in,
                       .n_in = head.n_out,
                       .data = std::as_bytes(std::span(values))});
  }
  return MakeHeadLinear(context, sources);
}

}  // namespace ops
