#include <mlx/device.h>
#include <mlx/ops.h>

#include "ops/linear/make_linear.h"
#include "ops/linear/native_product.h"
#include "ops/native_op.h"

namespace ops::linear {
namespace {

using mlx::core::array;

class NativeLinear final : public Linear {
 public:
  explicit NativeLinear(std::shared_ptr<const NativeProduct> product)
      : product_(std::move(product)) {}

  int n_in() const override { return product_->n_in(); }
  int n_out() const override { return product_->n_out(); }
  std::uint64_t bytes() const override { return product_->bytes(); }

  array operator()(const array& x) const override {
    const array input = x.dtype() == mlx::core::float32
                            ? x
                            : mlx::core::astype(x, mlx::core::float32, mlx::core::Device::cpu);
    return NativeOp({input}, mlx::core::Shape{x.shape(0), n_out()}, mlx::core::float32,
                    [product = product_](const std::vector<array>& in, std::vector<array>& out) {
                      product->Multiply(in[0].data<float>(), in[0].shape(0), out[0].data<float>());
                    });
  }

  array Rows(const array& tokens) const override {
    const int n_tokens = static_cast<int>(tokens.size());
    return NativeOp({tokens}, mlx::core::Shape{n_tokens, n_in()}, mlx::core::float32,
                    [product = product_](const std::vector<array>& in, std::vector<array>& out) {
                      const auto* ids = in[0].data<std::int32_t>();
                      auto* rows = out[0].data<float>();
                      product->pool().ParallelFor(out[0].shape(0), [&](int t) {
                        product->CopyRow(ids[t],
                                         rows + static_cast<std::ptrdiff_t>(t) * product->n_in());
                      });
                    });
  }

 private:
  std::shared_ptr<const NativeProduct>
      product_;  // shared with the graph nodes that are not evaluated yet
};

}  // namespace

std::unique_ptr<Linear> MakeNativeLinear(const Context& context,
                                         std::span<const WeightSource> parts,
                                         std::span<const float> bias) {
  std::vector<PackedMatrix> packed;
  packed.reserve(parts.size());
  for (const WeightSource& part : parts) {
    packed.emplace_back(part, *context.pool);
  }
  return std::make_unique<NativeLinear>(std::make_shared<const NativeProduct>(
      std::move(packed), std::vector<float>(bias.begin(), bias.end()),
      KernelsFor(context.instruction_set), *context.pool));
}

}  // namespace ops::linear
