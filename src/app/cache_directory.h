#pragma once

#include <filesystem>
#include <optional>

#include "app/options.h"

namespace app {

// Where the disk tier of the bank is when nobody says: emberbank in XDG_CACHE_HOME, else in the
// platform's place below HOME (~/.cache, on a Mac ~/Library/Caches). Nothing without a HOME.
[[nodiscard]] std::optional<std::filesystem::path> DefaultCacheDirectory(
    const Environment& environment);

}  // namespace app
