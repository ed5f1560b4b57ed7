#pragma once

#include <functional>
#include <vector>

#include "base/json.h"
#include "models/shared_config.h"
#include "ops/kv_store/block_store.h"

namespace models {

// The window of each layer (0 = full attention), out of "layer_types" where the config has it, else
// by `is_full`. `window` is what a sliding layer keeps. Mistakes (another kind of layer, wrong
// length) go to `reader`.
[[nodiscard]] std::vector<int> LayerWindows(const Json& config, ConfigReader& reader, int n_layers,
                                            int window,
                                            const std::function<bool(int layer)>& is_full);

// One group for the full layers, then one for each window size, ascending.
[[nodiscard]] std::vector<ops::LayerGroup> GroupLayers(const std::vector<int>& windows);

}  // namespace models
