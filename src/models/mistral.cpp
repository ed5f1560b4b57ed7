// Mistral (Jiang et al. 2023), Ministral and Ministral 3: as Llama, all layers with a sliding
// window, none, or as "layer_types" lists them. Checkpoints that also see images ("mistral3") are
// served as text models; their vision tensors are left alone. Source: transformers' models/mistral,
// models/ministral and models/ministral3 (mlx-lm reads a mistral as a llama and leaves the window
// out).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/shared_layers.h"
#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"

namespace models::mistral {
namespace {

constexpr std::array<std::string_view, 4> kTypes = {"mistral", "ministral", "ministral3",
                                                    "mistral3"};

// transformers takes 4096 where a config of the first two is silent; published ones without windows
// say null.
std::vector<int> ReadWindows(const Json& json, ConfigReader& reader, int n_layers) {
  constexpr int kUsualWindow = 4096;
  const auto found = json.find("sliding_window");
  const bool full =
      found == json.end() ? reader.Text("model_type", "mistral") == "ministral3" : found->is_null();
  const int window = full ? 0 : UsefulWindow(json, reader.Size("sliding_window", kUsualWindow));
  return LayerWindows(json, reader, n_layers, window, [full](int) { return full; });
}

// Ministral 3 sharpens attention beyond the context it was first trained for, as Llama 4: q times
// 1 + beta log(1 + floor(position / original)).
Result<std::function<float(std::int32_t)>> ReadQFactor(const Json& json) {
  const auto parameters = json.find("rope_parameters");
  if (parameters == json.end() || !parameters->is_object()) {
    return nullptr;
  }
  ConfigReader reader(*parameters);
  if (!reader.IsSet("llama_4_scaling_beta")) {
    return nullptr;
  }
  const double beta = reader.Positive("llama_4_scaling_beta");
  const double original = reader.Positive("original_max_position_embeddings");
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  return [beta, original](std::int32_t position) {
    return static_cast<float>(1.0 + beta * std::log1p(std::floor(position / original)));
  };
}

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const auto text = source.config.find("text_config");
  const Json& json = text != source.config.end() && text->is_object() ? *text : source.config;
  ConfigReader reader(json);
  const std::string type = reader.Text("model_type", "mistral");
  if (type == "mistral3" || std::ranges::find(kTypes, type) == kTypes.end()) {
    reader.Refuse(fmt::format(
        "The text part of the model is of the type `{}`, which is not supported yet.", type));
  }
  DecoderConfig config = ReadDecoderConfig(reader, weights, {});
  config.windows = ReadWindows(json, reader, config.n_layers);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  Result<std::function<float(std::int32_t)>> q_factor = ReadQFactor(json);
  if (!q_factor) {
    return Fail(q_factor.error());
  }
  return MakePreNormDecoder(context, weights,
                            {.config = std::move(config), .q_factor = std::move(*q_factor)});
}

// The turns of Mistral's instruction models; a system message opens the first user turn.
constexpr std::string_view kFallbackTemplate =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set opening = "
    "messages[0]['content'] ~ '\n\n' %}{% set turns = messages[1:] %}{% else %}{% set opening = "
    "'' %}{% set turns = messages %}{% endif %}"
    "{% for message in turns %}{% if message['role'] == 'assistant' %} {{ message['content'] }}{{ "
    "eos_token }}{% else %}[INST] {{ opening if loop.first }}{{ message['content'] }} [/INST]{% "
    "endif %}{% endfor %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::mistral
