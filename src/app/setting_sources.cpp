#include "app/setting_sources.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <numeric>
#include <system_error>
#include <utility>

namespace app {
namespace {

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

// Levenshtein distance, by the row-by-row recurrence.
std::size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string EnvironmentName(const std::string& setting) {
  std::string name = "EMBERBANK_";
  for (const char c : setting) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

SettingValues FromEnvironment(const std::vector<Setting>& settings,
                              const Environment& environment) {
  SettingValues values;
  for (const Setting& setting : settings) {
    const std::optional<std::string> text = environment(EnvironmentName(setting.name));
    if (!text || text->empty()) {
      continue;
    }
    const bool several =
        setting.arity == Setting::Arity::kList || setting.arity == Setting::Arity::kRepeated;
    values[setting.name] = several ? SplitAtCommas(*text) : std::vector<std::string>{*text};
  }
  return values;
}

Result<std::map<std::string, SettingValues>> ReadConfigFile(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return Fail(ErrorCode::kIo,
                fmt::format("The configuration file {} cannot be read: there is no such file.",
                            path.string()));
  }
  std::map<std::string, SettingValues> tables;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_file(path.string())) {
      if (item.name == "++" || item.name == "--") {
        continue;  // beginning and end of a table
      }
      std::string name = item.name;
      std::ranges::replace(name, '_', '-');
      const std::string table = CLI::detail::join(item.parents, ".");
      tables[table][name] = item.inputs.empty() ? std::vector<std::string>{""} : item.inputs;
    }
  } catch (const CLI::Error& failure) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The configuration file {} cannot be understood: {}.", path.string(),
                            failure.what()));
  }
  return tables;
}

std::optional<std::filesystem::path> DefaultConfigFile(const Environment& environment) {
  std::filesystem::path folder;
  if (const auto xdg = environment("XDG_CONFIG_HOME"); xdg && !xdg->empty()) {
    folder = *xdg;
  } else if (const auto home = environment("HOME"); home && !home->empty()) {
    folder = std::filesystem::path(*home) / ".config";
  } else {
    return std::nullopt;
  }
  const std::filesystem::path file = folder / "emberbank" / "config.toml";
  std::error_code error;
  return std::filesystem::exists(file, error) ? std::optional(file) : std::nullopt;
}

std::string NearestName(const std::string& name, const std::vector<std::string>& names) {
  std::string nearest;
  // Half of the letters may differ: farther ones are no help.
  std::size_t best = std::max<std::size_t>(2, name.size() / 2);
  for (const std::string& each : names) {
    const std::size_t distance = EditDistance(name, each);
    if (distance < best || (distance == best && nearest.empty())) {
      best = distance;
      nearest = each;
    }
  }
  return nearest;
}

}  // namespace app
