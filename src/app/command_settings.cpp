// The settings of every command but `serve`.
#include <limits>
#include <utility>

#include "app/settings.h"

namespace app {
namespace {

constexpr int kAnyInt = std::numeric_limits<int>::max();
constexpr std::int64_t kAnyWhole = std::numeric_limits<std::int64_t>::max();

// "0,4096"
Setting WholeList(std::string name, std::string help, std::vector<int>& target, Range<int> range) {
  const std::string flag = "--" + name;
  return {.name = std::move(name),
          .synonyms = {},
          .arity = Setting::Arity::kValue,
          .placeholder = "N,...",
          .help = std::move(help),
          .apply = [flag, range, &target](const std::vector<std::string>& values) -> Result<void> {
            Result<std::vector<int>> numbers = ParseWholeList(flag, values.back(), range);
            if (!numbers) {
              return Fail(numbers.error());
            }
            target = std::move(*numbers);
            return {};
          }};
}

}  // namespace

std::vector<Setting> SettingsOf(ChatOptions& options) {
  std::vector<Setting> settings;
  settings.push_back(
      Argument("model", "MODEL", "Model to serve for this talk, as of `serve`", options.model));
  settings.push_back(
      Text("url", "URL", "Server to talk to instead, http://host:port", options.url));
  settings.push_back(Text("system", "TEXT", "System message", options.system));
  settings.push_back(Number("temperature", "T",
                            "Sampling temperature; 0: always the likeliest token",
                            options.temperature, {.low = 0, .high = 100}));
  settings.push_back(Whole("max-tokens", "TOKENS",
                           "Longest reply (default: what the context leaves)", options.max_tokens,
                           {.low = 1, .high = kAnyInt}));
  settings.push_back(Text("api-key", "KEY", "Key that the server asks for", options.api_key));
  settings.push_back(Whole("threads", "N", "Compute threads (default: physical cores)",
                           options.threads, {.low = 1, .high = 1024}));
  settings.push_back(Whole("context-length", "TOKENS", "Longest talk (default: the model's own)",
                           options.context_length, {.low = 1, .high = kAnyWhole}));
  return settings;
}

std::vector<Setting> SettingsOf(ModelsOptions& options) {
  return {Switch("json", "Print one JSON array", options.json)};
}

std::vector<Setting> SettingsOf(ParseOptions& options) {
  return {Text("format", "NAME", "Wire format of all lines (default: as each line says)",
               options.format)};
}

std::vector<Setting> SettingsOf(BenchOptions& options) {
  constexpr int kMostTokens = 1 << 24;
  std::vector<Setting> settings;
  settings.push_back(Argument("model", "MODEL", "Model to measure, as of `serve`", options.model));
  settings.push_back(Whole("prefill", "TOKENS", "Prompt tokens of a measurement (default 512)",
                           options.prefill, {.low = 1, .high = kMostTokens}));
  settings.push_back(Whole("decode", "TOKENS", "Reply tokens of a measurement (default 64)",
                           options.decode, {.low = 1, .high = kMostTokens}));
  settings.push_back(WholeList("depth", "Tokens already in the context (default 0,4096)",
                               options.depths, {.low = 0, .high = kMostTokens}));
  settings.push_back(WholeList("parallel", "Sequences decoded together (default 1,4,8)",
                               options.parallel, {.low = 1, .high = 4096}));
  settings.push_back(Whole("threads", "N", "Compute threads (default: physical cores)",
                           options.threads, {.low = 1, .high = 1024}));
  settings.push_back(Whole("repeat", "N", "Measurements, of which the median counts (default 3)",
                           options.repeat, {.low = 1, .high = 1000}));
  settings.push_back(Whole("kv-bits", "BITS", "Bits of a stored K or V value (default 16)",
                           options.kv_bits, {.low = 1, .high = 32}));
  settings.push_back(Switch("json", "Print one JSON object", options.json));
  return settings;
}

std::vector<Setting> SettingsOf(SelftestOptions& options) {
  std::vector<Setting> settings;
  settings.push_back(Argument("model", "MODEL", "Model to test, as of `serve`", options.model));
  settings.push_back(WholeList("kv-bits", "Bits of a stored K or V value (default: all there are)",
                               options.kv_bits, {.low = 1, .high = 32}));
  settings.push_back(Whole("lives", "N", "Restarts of the server that each survives (default 4)",
                           options.lives, {.low = 1, .high = 1000}));
  settings.push_back(Whole("seed", "N", "Another seed, other talks (default 1)", options.seed,
                           {.low = 0, .high = kAnyInt}));
  settings.push_back(Whole("threads", "N", "Compute threads (default: physical cores)",
                           options.threads, {.low = 1, .high = 1024}));
  return settings;
}

std::vector<Setting> SettingsOf(CacheOptions& options) {
  std::vector<Setting> settings;
  settings.push_back(Argument("action", "ACTION",
                              "ls, stats, gc, verify, clear, export DIR or import DIR",
                              options.action));
  settings.push_back(
      Argument("directory", "DIR", "Of export and import: the other directory", options.target));
  settings.push_back(Text("ssd-cache-dir", "DIR",
                          "The cache (default: emberbank in the user's cache directory)",
                          options.ssd_cache_dir));
  settings.push_back(Text("model", "NAME",
                          "Only this model's part: its name in ls, or the start "
                          "of its fingerprint",
                          options.model));
  settings.push_back(Number("ssd-cache-max-gb", "GIB",
                            "What gc leaves (default: a tenth of the free disk, as `serve`)",
                            options.ssd_cache_max_gb, {.low = 0, .high = 1e6}));
  settings.push_back(
      Switch("dry-run", "Of gc, verify and clear: say what would be done", options.dry_run));
  settings.push_back(Switch("json", "Print one JSON value", options.json));
  return settings;
}

std::vector<Setting> SettingsOf(DoctorOptions& options) {
  std::vector<Setting> settings;
  settings.push_back(Text("ssd-cache-dir", "DIR",
                          "Directory whose disk is measured (default: emberbank in the user's "
                          "cache directory)",
                          options.ssd_cache_dir));
  settings.push_back(Whole("threads", "N", "Compute threads (default: physical cores)",
                           options.threads, {.low = 1, .high = 1024}));
  settings.push_back(Switch("json", "Print one JSON object", options.json));
  return settings;
}

}  // namespace app
