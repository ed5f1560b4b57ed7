#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "app/setting.h"

namespace app {

// The settings of each command, in the order of its help. They write into `options`, which must
// outlive them.
[[nodiscard]] std::vector<Setting> SettingsOf(ServeOptions& options);  // with PeerSettings
[[nodiscard]] std::vector<Setting> SettingsOf(ChatOptions& options);
[[nodiscard]] std::vector<Setting> SettingsOf(ModelsOptions& options);
[[nodiscard]] std::vector<Setting> SettingsOf(BenchOptions& options);
[[nodiscard]] std::vector<Setting> SettingsOf(ParseOptions& options);
[[nodiscard]] std::vector<Setting> SettingsOf(SelftestOptions& options);
[[nodiscard]] std::vector<Setting> SettingsOf(CacheOptions& options);
[[nodiscard]] std::vector<Setting> SettingsOf(DoctorOptions& options);

// Flags of rapid-mlx's and vllm-mlx's `serve` that do nothing here yet: accepted with the same
// number of values, so that a command line written for them starts. Their names are noted in
// `given`.
[[nodiscard]] std::vector<Setting> PeerSettings(std::vector<std::string>& given);
// What to say of one that was given and is accepted without effect.
[[nodiscard]] std::string SayWithoutEffect(const std::string& flag);

}  // namespace app
