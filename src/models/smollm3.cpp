// SmolLM3 (Hugging Face 2025): as Llama, with layers that no rotary embedding turns, by default
// every fourth. Source: transformers' models/smollm3.

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_layers.h"
#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"
#include "models/shared_templates.h"

namespace models::smollm3 {
namespace {

// Whether RoPE turns q and k of each layer: "no_rope_layers" holds 1 where it does.
std::vector<bool> ReadRotations(const Json& json, ConfigReader& reader, int n_layers) {
  constexpr int kUsualInterval = 4;
  const int interval = reader.Size("no_rope_layer_interval", kUsualInterval);
  std::vector<bool> rotates;
  const auto listed = json.find("no_rope_layers");
  if (listed == json.end() || listed->is_null()) {
    for (int i = 0; i < n_layers; ++i) {
      rotates.push_back((i + 1) % interval != 0);
    }
    return rotates;
  }
  for (const Json& each : *listed) {
    rotates.push_back(each != 0 && each != false);
  }
  if (!listed->is_array() || rotates.size() != static_cast<std::size_t>(n_layers)) {
    reader.Refuse("`no_rope_layers` in the configuration must list one number a layer.");
    rotates.assign(static_cast<std::size_t>(n_layers), true);
  }
  return rotates;
}

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  DecoderConfig config = ReadDecoderConfig(reader, weights, {.tied = true});
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  const std::vector<bool> rotates = ReadRotations(json, reader, config.n_layers);
  const auto rotates_at = [rotates](int layer) { return rotates[static_cast<std::size_t>(layer)]; };
  if (reader.Flag("use_sliding_window", false) && reader.IsSet("sliding_window")) {
    config.windows =
        LayerWindows(json, reader, config.n_layers, reader.Size("sliding_window"), rotates_at);
  }
  const bool biased = reader.Flag("attention_bias", false);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim, .default_theta = 2e6});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return MakePreNormDecoder(
      context, weights,
      {.config = std::move(config), .attention = {.qkv_biases = biased}, .rotates = rotates_at});
}

constexpr std::array<std::string_view, 1> kTypes = {"smollm3"};

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kChatMlTemplate, .make = &Make};

}  // namespace models::smollm3
