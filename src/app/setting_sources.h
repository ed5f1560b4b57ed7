#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "app/setting.h"
#include "base/result.h"

namespace app {

// Where settings come from besides the command line.

// Values by setting name.
using SettingValues = std::map<std::string, std::vector<std::string>>;

// "EMBERBANK_MAX_TOKENS" of "max-tokens".
[[nodiscard]] std::string EnvironmentName(const std::string& setting);

// What the environment says about `settings`; an empty variable says nothing. Several values are
// separated by commas.
[[nodiscard]] SettingValues FromEnvironment(const std::vector<Setting>& settings,
                                            const Environment& environment);

// A TOML file: settings by their names (with - or _), at its top or in a table named after a
// command. Keys by command; those at the top are under "". Errors (kInvalidRequest, kIo): one
// sentence naming the file.
[[nodiscard]] Result<std::map<std::string, SettingValues>> ReadConfigFile(
    const std::filesystem::path& path);

// The file that is read when none is named, or nothing where there is none.
[[nodiscard]] std::optional<std::filesystem::path> DefaultConfigFile(
    const Environment& environment);

// Which of `names` is nearest to `name` by edit distance; empty when none is near.
[[nodiscard]] std::string NearestName(const std::string& name,
                                      const std::vector<std::string>& names);

}  // namespace app
