// Mistral (Jiang et al. 2023) and Ministral: as Llama, all layers with a sliding window, none, or
// as "layer_types" lists them. Source: transformers' models/mistral and models/ministral (mlx-lm
// reads a mistral as a llama and leaves the window out).

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_layers.h"
#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"

namespace models::mistral {
namespace {

// transformers takes 4096 where a config is silent; published ones without windows say null.
std::vector<int> ReadWindows(const Json& json, ConfigReader& reader, int n_layers) {
  constexpr int kUsualWindow = 4096;
  const auto found = json.find("sliding_window");
  const bool full = found != json.end() && found->is_null();
  const int window = full ? 0 : UsefulWindow(json, reader.Size("sliding_window", kUsualWindow));
  return LayerWindows(json, reader, n_layers, window, [full](int) { return full; });
}

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
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
  return MakePreNormDecoder(context, weights, {.config = std::move(config)});
}

constexpr std::array<std::string_view, 2> kTypes = {"mistral", "ministral"};

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
