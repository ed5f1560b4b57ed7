#include "models/shared_layers.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <utility>

namespace models {

bool CheckLayerCount(ConfigReader& reader, int n_layers) {
  constexpr int kMaxLayers = 10'000;  // far above every model
  if (n_layers > kMaxLayers) {
    reader.Refuse(
        fmt::format("`num_hidden_layers` in the configuration must be at most {}, got {}.",
                    kMaxLayers, n_layers));
  }
  return n_layers <= kMaxLayers;
}

std::vector<int> LayerWindows(const Json& config, ConfigReader& reader, int n_layers, int window,
                              const std::function<bool(int layer)>& is_full) {
  std::vector<int> windows;
  if (!CheckLayerCount(reader, n_layers)) {
    return windows;
  }
  const auto types = config.find("layer_types");
  if (types == config.end() || !types->is_array()) {
    for (int layer = 0; layer < n_layers; ++layer) {
      windows.push_back(is_full(layer) ? 0 : window);
    }
    return windows;
  }
  if (types->size() != static_cast<std::size_t>(n_layers)) {
    reader.Refuse(fmt::format(
        "`layer_types` in the configuration has {} entries, but `num_hidden_layers` is {}.",
        types->size(), n_layers));
  }
  for (const Json& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      reader.Refuse(fmt::format(
          "`layer_types` in the configuration has a layer of type {}, but this family has only "
          "full_attention and sliding_attention.",
          DumpJson(type)));
    }
    windows.push_back(type == "sliding_attention" ? window : 0);
  }
  windows.resize(static_cast<std::size_t>(n_layers), 0);
  return windows;
}

std::vector<int> QwenWindows(const Json& config, ConfigReader& reader, int n_layers) {
  if (!reader.Flag("use_sliding_window", false) || !reader.IsSet("sliding_window")) {
    return LayerWindows(Json::object(), reader, n_layers, 0, [](int) { return true; });
  }
  const auto first = config.find("max_window_layers");
  const std::int64_t first_sliding =
      first != config.end() && first->is_number_integer() ? first->get<std::int64_t>() : n_layers;
  return LayerWindows(config, reader, n_layers, reader.Size("sliding_window"),
                      [first_sliding](int layer) { return layer < first_sliding; });
}

std::vector<ops::LayerGroup> GroupLayers(const std::vector<int>& windows) {
  std::map<int, std::vector<int>> layers_by_window;
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    layers_by_window[windows[layer]].push_back(static_cast<int>(layer));
  }
  std::vector<ops::LayerGroup> groups;
  for (auto& [window, layers] : layers_by_window) {
    groups.push_back({.layers = std::move(layers), .window = window});
  }
  return groups;
}

}  // namespace models
