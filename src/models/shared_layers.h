#pragma once

#include <functional>
#include <vector>

#include "base/json.h"
#include "models/shared_config.h"
#include "ops/kv_store/block_store.h"

namespace models {

// Whether `n_layers` is a count that a model can have: each is listed before it is loaded. If not,
// the mistake goes to `reader`.
bool CheckLayerCount(ConfigReader& reader, int n_layers);

// The window of each layer (0 = full attention), out of "layer_types" where the config has it, else
// by `is_full`. `window` is what a sliding layer keeps. Mistakes (another kind of layer, wrong
// length) go to `reader`.
[[nodiscard]] std::vector<int> LayerWindows(const Json& config, ConfigReader& reader, int n_layers,
                                            int window,
                                            const std::function<bool(int layer)>& is_full);

// Of Qwen2 and Qwen3: layers from "max_window_layers" on slide, where "use_sliding_window" turns
// windows on at all.
[[nodiscard]] std::vector<int> QwenWindows(const Json& config, ConfigReader& reader, int n_layers);

// One group for the full layers, then one for each window size, ascending.
[[nodiscard]] std::vector<ops::LayerGroup> GroupLayers(const std::vector<int>& windows);

}  // namespace models
