// Experts as a plain MLX graph: the matrices of all experts stacked, gathered by the routing.
#include <mlx/device.h>
#include <mlx/ops.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ops/linear/reference_part.h"
#include "ops/moe/make_experts.h"

namespace ops::moe {
namespace {

namespace mx = mlx::core;

// One matrix of all experts.
struct Stack {
  mx::array weights;  // [n_experts, n_out, n_in] float32, or [n_experts, n_out, words] uint32
  std::optional<mx::array> scales = std::nullopt;  // [n_experts, n_out, n_in / group_size]
  std::optional<mx::array> biases = std::nullopt;
  std::optional<mx::array> bias = std::nullopt;  // [n_experts, n_out]
  int bits = 0;
  int group_size = 0;

  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = weights.nbytes();
    for (const auto& more : {scales, biases, bias}) {
      sum += more ? more->nbytes() : 0;
    }
    return sum;
  }

  // x: [T, 1 or k, 1, n_in]; experts: [T, k]. Returns [T, k, 1, n_out].
  [[nodiscard]] mx::array operator()(const mx::array& x, const mx::array& experts) const {
    const mx::array y =
        scales ? mx::gather_qmm(x, weights, *scales, biases, std::nullopt, experts,
                                /*transpose=*/true, group_size, bits)
               : mx::gather_mm(x, mx::swapaxes(weights, -1, -2), std::nullopt, experts);
    return bias ? mx::add(y, mx::expand_dims(mx::take(*bias, experts, 0), -2)) : y;
  }
};

mx::array Stacked(std::vector<mx::array> arrays) {
  mx::array all = mx::stack(std::move(arrays), 0, mx::Device::cpu);
  all.eval();
  return all;
}

Stack MakeStack(std::span<const ExpertSource> sources, WeightSource ExpertSource::* matrix,
                std::vector<float> ExpertSource::* bias) {
  std::vector<mx::array> weights;
  std::vector<mx::array> scales;
  std::vector<mx::array> biases;
  std::vector<mx::array> added;
  int bits = 0;
  int group_size = 0;
  for (const ExpertSource& source : sources) {
    const linear::ReferencePart part = linear::MakeReferencePart(source.*matrix);
    weights.push_back(part.weights);
    if (part.scales) {
      scales.push_back(*part.scales);
      biases.push_back(*part.biases);
      bits = part.bits;
      group_size = part.group_size;
    }
    const std::vector<float>& values = source.*bias;
    if (!values.empty()) {
      added.emplace_back(values.data(), mx::Shape{static_cast<int>(values.size())});
    }
  }
  Stack stack{.weights = Stacked(std::move(weights))};
  if (!scales.empty()) {
    stack.scales = Stacked(std::move(scales));
    stack.biases = Stacked(std::move(biases));
    stack.bits = bits;
    stack.group_size = group_size;
  }
  if (!added.empty()) {
    stack.bias = Stacked(std::move(added));
  }
  return stack;
}

class ReferenceExperts final : public Experts {
 public:
  ReferenceExperts(Stack gate, Stack up, Stack down, Activation activation)
      : gate_(std::move(gate)),
        up_(std::move(up)),
        down_(std::move(down)),
        activation_(activation) {}

  int n_experts() const override { return gate_.weights.shape(0); }
  std::uint64_t bytes() const override { return gate_.bytes() + up_.bytes() + down_.bytes(); }

  mx::array operator()(const mx::array& x, const Routing& routing) const override {
    const Context reference{.path = KernelPath::kReference};
    const mx::array rows = mx::expand_dims(x, {-2, -3});
    const mx::array gate_up =
        mx::concatenate({gate_(rows, routing.experts), up_(rows, routing.experts)}, -1);
    const mx::array y =
        mx::squeeze(down_(GatedLinearUnit(reference, gate_up, activation_), routing.experts), -2);
    return mx::sum(mx::multiply(y, mx::expand_dims(routing.weights, -1)), -2);
  }

 private:
  Stack gate_;
  Stack up_;
  Stack down_;
  Activation activation_;
};

}  // namespace

std::unique_ptr<Experts> MakeReferenceExperts(std::span<const ExpertSource> sources,
                                              Activation activation) {
  return std::make_unique<ReferenceExperts>(
      MakeStack(sources, &ExpertSource::gate, &ExpertSource::gate_bias),
      MakeStack(sources, &ExpertSource::up, &ExpertSource::up_bias),
      MakeStack(sources, &ExpertSource::down, &ExpertSource::down_bias), activation);
}

}  // namespace ops::moe
