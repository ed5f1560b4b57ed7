#include "app/cache_directory.h"

namespace app {
namespace {

constexpr const char* kBelowHome = EMBERBANK_CACHE_BELOW_HOME;  // set by the build, per platform

}  // namespace

std::optional<std::filesystem::path> DefaultCacheDirectory(const Environment& environment) {
  if (const auto xdg = environment("XDG_CACHE_HOME"); xdg && !xdg->empty()) {
    return std::filesystem::path(*xdg) / "emberbank";
  }
  if (const auto home = environment("HOME"); home && !home->empty()) {
    return std::filesystem::path(*home) / kBelowHome / "emberbank";
  }
  return std::nullopt;
}

}  // namespace app
