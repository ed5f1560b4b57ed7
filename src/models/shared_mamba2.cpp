#include "models/shared_mamba2.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "models/shared_conv.h"
#include "ops/gated_delta/gated_delta.h"

namespace models {
namespace {

namespace mx = mlx::core;

Result<mx::array> Vector(WeightLoader& weights, const std::string& name, int size) {
  const Result<std::vector<float>> values = weights.Values(name, {{size}});
  if (!values) {
    return Fail(values.error());
  }
  return mx::array(values->begin(), {size}, mx::float32);
}

Result<ops::Mamba2Weights> LoadVectors(WeightLoader& weights, const std::string& prefix,
                                       const ops::Mamba2Spec& spec) {
  Result<std::vector<float>> rate = weights.Values(prefix + "A_log", {{spec.n_heads}});
  if (!rate) {
    return Fail(rate.error());
  }
  for (float& value : *rate) {
    value = std::exp(value);
  }
  const Result<mx::array> dt_bias = Vector(weights, prefix + "dt_bias", spec.n_heads);
  if (!dt_bias) {
    return Fail(dt_bias.error());
  }
  const Result<mx::array> skip = Vector(weights, prefix + "D", spec.n_heads);
  if (!skip) {
    return Fail(skip.error());
  }
  const Result<mx::array> norm = weights.Norm(prefix + "norm", spec.inner_size());
  if (!norm) {
    return Fail(norm.error());
  }
  return ops::Mamba2Weights{.decay_rate = mx::array(rate->begin(), {spec.n_heads}, mx::float32),
                            .dt_bias = *dt_bias,
                            .skip = *skip,
                            .norm = *norm};
}

}  // namespace

ops::LayerGroup Mamba2Sizes::Group() const {
  return {.window = ops::kStateWindow,
          .state_floats = spec.state_floats(),
          .conv_floats = (conv_kernel - 1) * spec.conv_channels()};
}

void CheckMamba2(ConfigReader& reader, const Mamba2Sizes& sizes) {
  const ops::Mamba2Spec& spec = sizes.spec;
  constexpr int kGrain = 16;  // lanes of a kernel's vector
  constexpr int kMost = 1 << 16;
  if (spec.n_heads > kMost || spec.head_dim > kMost / spec.n_heads || spec.head_dim % kGrain != 0 ||
      spec.d_state > ops::kMaxKeyDim) {
    reader.Refuse(fmt::format(
        "A Mamba-2 layer must have heads of a multiple of {} and at most {} states; the "
        "configuration asks for {} heads of {} with {} states.",
        kGrain, ops::kMaxKeyDim, spec.n_heads, spec.head_dim, spec.d_state));
  }
  if (spec.n_heads % spec.n_groups != 0) {
    reader.Refuse(fmt::format(
        "The Mamba-2 heads must be a multiple of their groups; the configuration asks for {} heads "
        "in {} groups.",
        spec.n_heads, spec.n_groups));
  }
  if (sizes.conv_kernel < 2 || sizes.conv_kernel > ops::kMaxConvKernel) {
    reader.Refuse(fmt::format(
        "The convolution of a Mamba-2 layer must have 2 to {} taps; the configuration asks for {}.",
        ops::kMaxConvKernel, sizes.conv_kernel));
  }
}

mx::array Mamba2Block::Mix(const ops::Context& context, const mx::array& x,
                           const ops::StepBatch& batch, ops::KvStore& store) const {
  const mx::array projected = (*input)(x);
  const mx::array xbc =
      ops::ShortConv(context, conv, projected, conv_weight, conv_bias, batch, store);
  return ops::Mamba2(context, spec, xbc, projected, weights, batch, store);
}

Result<Mamba2Block> LoadMamba2(WeightLoader& weights, const std::string& prefix,
                               const Mamba2Options& options) {
  ops::Mamba2Spec spec = options.sizes.spec;
  spec.layer = options.layer;
  const int channels = spec.conv_channels();
  Result<std::unique_ptr<ops::Linear>> input = weights.Linear(
      {{.name = prefix + "in_proj", .n_out = spec.projected_size()}}, options.hidden_size);
  if (!input) {
    return Fail(input.error());
  }
  const Result<mx::array> conv =
      LoadConvWeight(weights, prefix + "conv1d.weight", channels, options.sizes.conv_kernel);
  if (!conv) {
    return Fail(conv.error());
  }
  std::optional<mx::array> conv_bias;
  if (options.conv_bias) {
    const Result<mx::array> bias = Vector(weights, prefix + "conv1d.bias", channels);
    if (!bias) {
      return Fail(bias.error());
    }
    conv_bias = *bias;
  }
  const Result<ops::Mamba2Weights> vectors = LoadVectors(weights, prefix, spec);
  if (!vectors) {
    return Fail(vectors.error());
  }
  Result<std::unique_ptr<ops::Linear>> output = weights.Linear(
      {{.name = prefix + "out_proj", .n_out = options.hidden_size}}, spec.inner_size());
  if (!output) {
    return Fail(output.error());
  }
  return Mamba2Block{.conv = {.layer = options.layer,
                              .first_column = spec.inner_size(),
                              .channels = channels,
                              .kernel = options.sizes.conv_kernel},
                     .spec = spec,
                     .input = std::move(*input),
                     .conv_weight = *conv,
                     .conv_bias = std::move(conv_bias),
                     .weights = *vectors,
                     .output = std::move(*output)};
}

}  // namespace models
