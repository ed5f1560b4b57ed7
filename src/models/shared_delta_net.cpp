#include "models/shared_delta_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/shared_conv.h"
#include "models/shared_unused.h"

namespace models {
namespace {

namespace mx = mlx::core;

mx::array Vector(const std::vector<float>& values) {
  return mx::array(values.begin(), {static_cast<int>(values.size())}, mx::float32);
}

// The rows of a matrix that holds for each k head its parts one after the other, as rows of part
// `part`, head by head. sizes: rows of each part in one head.
WeightLoader::Part HeadParts(const std::string& name, int n_heads, const std::vector<int>& sizes,
                             std::size_t part) {
  int before = 0;
  int all = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    before += i < part ? sizes[i] : 0;
    all += sizes[i];
  }
  const int size = sizes[part];
  return {
      .name = name, .n_out = n_heads * size, .n_stored = n_heads * all, .source_row = [=](int row) {
        return row / size * all + before + row % size;
      }};
}

std::vector<WeightLoader::Part> Projections(const std::string& prefix,
                                            const DeltaNetOptions& options) {
  const DeltaNetSizes& sizes = options.sizes;
  const int key = sizes.n_k_heads * sizes.k_dim;
  const int value = sizes.n_v_heads * sizes.v_dim;
  if (options.layout == DeltaNetLayout::kSplit) {
    return {{.name = prefix + "in_proj_qkv", .n_out = 2 * key + value},
            {.name = prefix + "in_proj_z", .n_out = value},
            {.name = prefix + "in_proj_b", .n_out = sizes.n_v_heads},
            {.name = prefix + "in_proj_a", .n_out = sizes.n_v_heads}};
  }
  const int group = sizes.n_v_heads / sizes.n_k_heads;
  const std::vector<int> qkvz = {sizes.k_dim, sizes.k_dim, group * sizes.v_dim,
                                 group * sizes.v_dim};
  std::vector<WeightLoader::Part> parts;
  for (std::size_t i = 0; i < qkvz.size(); ++i) {
    parts.push_back(HeadParts(prefix + "in_proj_qkvz", sizes.n_k_heads, qkvz, i));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    parts.push_back(HeadParts(prefix + "in_proj_ba", sizes.n_k_heads, {group, group}, i));
  }
  return parts;
}

Result<ops::GatedDeltaWeights> LoadVectors(WeightLoader& weights, const std::string& prefix,
                                           const DeltaNetSizes& sizes) {
  Result<std::vector<float>> rate = weights.Values(prefix + "A_log", {{sizes.n_v_heads}});
  if (!rate) {
    return Fail(rate.error());
  }
  for (float& value : *rate) {
    value = std::exp(value);
  }
  const Result<std::vector<float>> dt_bias =
      weights.Values(prefix + "dt_bias", {{sizes.n_v_heads}});
  if (!dt_bias) {
    return Fail(dt_bias.error());
  }
  const Result<mx::array> norm = weights.Norm(prefix + "norm", sizes.v_dim);
  if (!norm) {
    return Fail(norm.error());
  }
  return ops::GatedDeltaWeights{
      .decay_rate = Vector(*rate), .dt_bias = Vector(*dt_bias), .norm = *norm};
}

}  // namespace

ops::GatedDeltaSpec DeltaNetSizes::Delta(int layer, float norm_eps) const {
  return {.layer = layer,
          .n_k_heads = n_k_heads,
          .n_v_heads = n_v_heads,
          .k_dim = k_dim,
          .v_dim = v_dim,
          .norm_eps = norm_eps};
}

ops::LayerGroup DeltaNetSizes::Group(std::vector<int> layers) const {
  return {.layers = std::move(layers),
          .window = ops::kStateWindow,
          .state_floats = Delta(0, 0.0F).state_floats(),
          .conv_floats = (conv_kernel - 1) * conv_channels()};
}

DeltaNetSizes ReadDeltaNetSizes(ConfigReader& reader) {
  const DeltaNetSizes sizes{.n_k_heads = reader.Size("linear_num_key_heads"),
                            .n_v_heads = reader.Size("linear_num_value_heads"),
                            .k_dim = reader.Size("linear_key_head_dim"),
                            .v_dim = reader.Size("linear_value_head_dim"),
                            .conv_kernel = reader.Size("linear_conv_kernel_dim", 4)};
  constexpr int kGrain = 16;  // lanes of a kernel's vector
  constexpr int kMost = 1 << 16;
  if (sizes.n_v_heads % sizes.n_k_heads != 0) {
    reader.Refuse(
        fmt::format("`linear_num_value_heads` in the configuration must be a multiple of "
                    "`linear_num_key_heads`, got {} and {}.",
                    sizes.n_v_heads, sizes.n_k_heads));
  }
  if (sizes.k_dim > ops::kMaxKeyDim || sizes.v_dim % kGrain != 0 || sizes.v_dim > kMost ||
      sizes.n_v_heads > kMost / sizes.v_dim) {
    reader.Refuse(fmt::format(
        "`linear_key_head_dim` must be at most {} and `linear_value_head_dim` a multiple of {}, "
        "got {} and {} with {} value heads.",
        ops::kMaxKeyDim, kGrain, sizes.k_dim, sizes.v_dim, sizes.n_v_heads));
  }
  if (sizes.conv_kernel < 2 || sizes.conv_kernel > ops::kMaxConvKernel) {
    reader.Refuse(
        fmt::format("`linear_conv_kernel_dim` in the configuration must be 2 to {}, got {}.",
                    ops::kMaxConvKernel, sizes.conv_kernel));
  }
  return sizes;
}

mx::array DeltaNet::Mix(const ops::Context& context, const mx::array& x,
                        const ops::StepBatch& batch, ops::KvStore& store) const {
  const mx::array projected = (*projections)(x);
  const mx::array qkv =
      ops::ShortConv(context, conv, projected, conv_weight, std::nullopt, batch, store);
  return ops::GatedDelta(context, delta, qkv, projected, weights, batch, store);
}

Result<DeltaNet> LoadDeltaNet(WeightLoader& weights, const std::string& prefix,
                              const DeltaNetOptions& options) {
  const DeltaNetSizes& sizes = options.sizes;
  Result<std::unique_ptr<ops::Linear>> projections =
      weights.Linear(Projections(prefix, options), options.hidden_size);
  if (!projections) {
    return Fail(projections.error());
  }
  const Result<mx::array> conv =
      LoadConvWeight(weights, prefix + "conv1d.weight", sizes.conv_channels(), sizes.conv_kernel);
  if (!conv) {
    return Fail(conv.error());
  }
  const Result<ops::GatedDeltaWeights> vectors = LoadVectors(weights, prefix, sizes);
  if (!vectors) {
    return Fail(vectors.error());
  }
  Result<std::unique_ptr<ops::Linear>> output = weights.Linear(
      {{.name = prefix + "out_proj", .n_out = options.hidden_size}}, sizes.n_v_heads * sizes.v_dim);
  if (!output) {
    return Fail(output.error());
  }
  return DeltaNet{.conv = {.layer = options.layer,
                           .channels = sizes.conv_channels(),
                           .kernel = sizes.conv_kernel},
                  .delta = sizes.Delta(options.layer, options.norm_eps),
                  .projections = std::move(*projections),
                  .conv_weight = *conv,
                  .weights = *vectors,
                  .output = std::move(*output)};
}

bool AnyMlxDeltaNet(const WeightLoader& weights, const std::string& prefix,
                    const std::vector<bool>& is_linear, const DeltaNetSizes& sizes) {
  for (std::size_t layer = 0; layer < is_linear.size(); ++layer) {
    const std::string name = prefix + std::to_string(layer) + ".linear_attn.conv1d.weight";
    if (is_linear[layer] &&
        weights.ShapeOf(name) == MlxConvShape(sizes.conv_channels(), sizes.conv_kernel)) {
      return true;
    }
  }
  return false;
}

std::vector<ops::LayerGroup> GroupHybridLayers(const std::vector<bool>& is_linear,
                                               const DeltaNetSizes& sizes) {
  std::vector<int> full;
  std::vector<int> linear;
  for (std::size_t layer = 0; layer < is_linear.size(); ++layer) {
    (is_linear[layer] ? linear : full).push_back(static_cast<int>(layer));
  }
  std::vector<ops::LayerGroup> groups;
  if (!full.empty()) {
    groups.push_back({.layers = std::move(full)});
  }
  if (!linear.empty()) {
    groups.push_back(sizes.Group(std::move(linear)));
  }
  return groups;
}

bool IsBesideTheTextModel(std::string_view name) {
  return name.starts_with("mtp.") || name.find(".mtp.") != std::string_view::npos ||
         name.starts_with("model.visual.") || name.starts_with("visual.") ||
         name.starts_with("vision_tower.");
}

void LogUnusedMtp(const model_files::ModelSource& source) {
  LogUnusedTensors(source, "mtp.", "predicting several tokens at once");
}

}  // namespace models
