#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "app/setting.h"

namespace app {

// The settings of each command, in the order of its help. They write into `options`, which must
// outlive them.
[[nodiscard]] std::vector<Setting> ServeSettings(ServeOptions& options);
[[nodiscard]] std::vector<Setting> ChatSettings(ChatOptions& options);
[[nodiscard]] std::vector<Setting> ModelsSettings(ModelsOptions& options);
[[nodiscard]] std::vector<Setting> BenchSettings(BenchOptions& options);
[[nodiscard]] std::vector<Setting> ParseSettings(ParseOptions& options);

// Flags of rapid-mlx's and vllm-mlx's `serve` that do nothing here yet: accepted with the same
// number of values, so that a command line written for them starts. Their names are noted in
// `given`.
[[nodiscard]] std::vector<Setting> PeerSettings(std::vector<std::string>& given);

}  // namespace app
