// Linear as a plain MLX graph on the same stored values, x not rounded.
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <optional>
#include <utility>
#include <vector>

#include "ops/linear/make_linear.h"
#include "ops/linear/reference_part.h"

namespace ops::linear {
namespace {

using mlx::core::array;
using mlx::core::Shape;

array Multiply(const ReferencePart& part, const array& x) {
  if (part.scales) {
    return mlx::core::quantized_matmul(x, part.weights, *part.scales, part.biases,
                                       /*transpose=*/true, part.group_size, part.bits);
  }
  return mlx::core::matmul(x, mlx::core::transpose(part.weights));
}

array TakeRows(const ReferencePart& part, const array& tokens) {
  const array rows = mlx::core::take(part.weights, tokens, 0);
  if (!part.scales) {
    return rows;
  }
  return mlx::core::dequantize(rows, mlx::core::take(*part.scales, tokens, 0),
                               mlx::core::take(*part.biases, tokens, 0), part.group_size,
                               part.bits);
}

class ReferenceLinear final : public Linear {
 public:
  ReferenceLinear(std::vector<ReferencePart> parts, std::optional<array> bias, int n_in)
      : parts_(std::move(parts)), bias_(std::move(bias)), n_in_(n_in) {
    for (const ReferencePart& part : parts_) {
      n_out_ += part.n_out;
    }
  }

  int n_in() const override { return n_in_; }
  int n_out() const override { return n_out_; }

  std::uint64_t bytes() const override {
    std::uint64_t sum = bias_ ? bias_->nbytes() : 0;
    for (const ReferencePart& part : parts_) {
      sum +=
          part.weights.nbytes() + (part.scales ? part.scales->nbytes() + part.biases->nbytes() : 0);
    }
    return sum;
  }

  array operator()(const array& x) const override {
    const array input = mlx::core::astype(x, mlx::core::float32);
    std::vector<array> outputs;
    for (const ReferencePart& part : parts_) {
      outputs.push_back(Multiply(part, input));
    }
    const array y = outputs.size() == 1 ? outputs.front() : mlx::core::concatenate(outputs, 1);
    return bias_ ? mlx::core::add(y, *bias_) : y;
  }

  array Rows(const array& tokens) const override {
    if (parts_.size() == 1) {
      return TakeRows(parts_.front(), tokens);
    }
    // Row t comes from the part whose outputs include tokens[t]; the others are asked for a row
    // that they have.
    array rows = mlx::core::zeros(Shape{static_cast<int>(tokens.size()), n_in_});
    int first = 0;
    for (const ReferencePart& part : parts_) {
      const array in_part = mlx::core::subtract(tokens, array(first));
      const array inside = mlx::core::logical_and(mlx::core::greater_equal(in_part, array(0)),
                                                  mlx::core::less(in_part, array(part.n_out)));
      const array safe = mlx::core::where(inside, in_part, array(0));
      rows = mlx::core::where(mlx::core::expand_dims(inside, 1), TakeRows(part, safe), rows);
      first += part.n_out;
    }
    return rows;
  }

 private:
  std::vector<ReferencePart> parts_;
  std::optional<array> bias_;
  int n_in_;
  int n_out_ = 0;
};

}  // namespace

std::unique_ptr<Linear> MakeReferenceLinear(std::span<const WeightSource> parts,
                                            std::span<const float> bias) {
  std::vector<ReferencePart> made;
  for (const WeightSource& source : parts) {
    made.push_back(MakeReferencePart(source));
  }
  std::optional<array> bias_array;
  if (!bias.empty()) {
    bias_array = array(bias.data(), Shape{static_cast<int>(bias.size())});
  }
  return std::make_unique<ReferenceLinear>(std::move(made), std::move(bias_array),
                                           parts.front().n_in);
}

}  // namespace ops::linear
