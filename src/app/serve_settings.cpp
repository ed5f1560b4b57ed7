#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/common.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "app/settings.h"

namespace app {
namespace {

constexpr int kAnyInt = std::numeric_limits<int>::max();
constexpr std::int64_t kAnyWhole = std::numeric_limits<std::int64_t>::max();
constexpr double kAnyNumber = std::numeric_limits<double>::infinity();

// As vllm-mlx and rapid-mlx have it, a share of 1; people also write percents.
Setting CacheMemoryPercent(ServeOptions& options) {
  return {
      .name = "cache-memory-percent",
      .synonyms = {},
      .arity = Setting::Arity::kValue,
      .placeholder = "SHARE",
      .help = "Memory for K and V, as a share of what the weights leave: 0.4 or 40 (default 40)",
      .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
        const Result<double> share =
            ParseNumber("--cache-memory-percent", values.back(), {.low = 0.001, .high = 100});
        if (!share) {
          return Fail(share.error());
        }
        options.cache_memory_mb = 0;  // a lower source may have set it
        options.cache_memory_percent = *share <= 1 ? *share * 100 : *share;
        return {};
      }};
}

Setting CacheMemoryMb(ServeOptions& options) {
  return {.name = "cache-memory-mb",
          .synonyms = {},
          .arity = Setting::Arity::kValue,
          .placeholder = "MIB",
          .help = "Memory for K and V in MiB (instead of --cache-memory-percent)",
          .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
            const Result<std::int64_t> mib = ParseWhole("--cache-memory-mb", values.back(),
                                                        {.low = 1, .high = std::int64_t{1} << 30});
            if (!mib) {
              return Fail(mib.error());
            }
            options.cache_memory_mb = static_cast<std::uint64_t>(*mib);
            return {};
          }};
}

Result<void> SetKvBits(std::string_view flag, const std::string& text,
                       const std::vector<int>& known, ServeOptions& options) {
  for (const int bits : known) {
    if (text == std::to_string(bits)) {
      options.kv_bits = bits;
      return {};
    }
  }
  return Fail(ErrorCode::kInvalidRequest,
              fmt::format("{} must be {}, got \"{}\".", flag, fmt::join(known, ", "), text));
}

Setting KvBits(ServeOptions& options) {
  return {.name = "kv-bits",
          .synonyms = {},
          .arity = Setting::Arity::kValue,
          .placeholder = "BITS",
          .help = "Bits of a stored K or V value: 32, 16, 8 or 4 (default 16)",
          .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
            return SetKvBits("--kv-bits", values.back(), {32, 16, 8, 4}, options);
          }};
}

// vllm-mlx's and rapid-mlx's names for 8 or 4 bits.
void AddKvQuantization(std::vector<Setting>& settings, ServeOptions& options) {
  settings.push_back({.name = "kv-cache-quantization",
                      .synonyms = {},
                      .arity = Setting::Arity::kFlag,
                      .placeholder = {},
                      .help = "The same as --kv-bits 8",
                      .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
                        const Result<bool> on =
                            ParseSwitch("--kv-cache-quantization", values.back());
                        if (!on) {
                          return Fail(on.error());
                        }
                        if (*on && options.kv_bits > 8) {
                          options.kv_bits = 8;
                        }
                        return {};
                      }});
  settings.push_back({.name = "kv-cache-quantization-bits",
                      .synonyms = {},
                      .arity = Setting::Arity::kValue,
                      .placeholder = "BITS",
                      .help = "8 or 4, the same as --kv-bits",
                      .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
                        return SetKvBits("--kv-cache-quantization-bits", values.back(), {8, 4},
                                         options);
                      }});
}

// The same as level names of Python's logging, whatever their case.
Setting LogLevel(ServeOptions& options) {
  return {.name = "log-level",
          .synonyms = {},
          .arity = Setting::Arity::kValue,
          .placeholder = "LEVEL",
          .help = "trace, debug, info, warning, error, critical or off (default info)",
          .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
            std::string level = values.back();
            std::ranges::transform(level, level.begin(), [](unsigned char c) {
              return static_cast<char>(std::tolower(c));
            });
            if (level == "warn") {
              level = "warning";
            }
            if (level != "off" && spdlog::level::from_str(level) == spdlog::level::off) {
              return Fail(ErrorCode::kInvalidRequest,
                          fmt::format("--log-level must be trace, debug, info, warning, error, "
                                      "critical or off, got \"{}\".",
                                      values.back()));
            }
            options.log_level = level;
            return {};
          }};
}

Setting ApiKey(ServeOptions& options) {
  return {.name = "api-key",
          .synonyms = {},
          .arity = Setting::Arity::kRepeated,
          .placeholder = "KEY",
          .help = "Key that clients must send; may be repeated (default: none is asked for)",
          .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
            if (std::ranges::find(values, "") != values.end()) {
              return Fail(ErrorCode::kInvalidRequest, "--api-key must not be empty.");
            }
            options.api_keys = values;
            return {};
          }};
}

Setting MaxRequestBytes(ServeOptions& options) {
  return {.name = "max-request-bytes",
          .synonyms = {},
          .arity = Setting::Arity::kValue,
          .placeholder = "BYTES",
          .help = "Largest body of a request (default: the server's own limit)",
          .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
            const Result<std::int64_t> bytes =
                ParseWhole("--max-request-bytes", values.back(), {.low = 1, .high = kAnyWhole});
            if (!bytes) {
              return Fail(bytes.error());
            }
            options.max_request_bytes = static_cast<std::uint64_t>(*bytes);
            return {};
          }};
}

Setting Timeout(ServeOptions& options) {
  return {.name = "timeout",
          .synonyms = {},
          .arity = Setting::Arity::kValue,
          .placeholder = "SECONDS",
          .help = "Longest time of a whole generation; 0: no limit (default 0)",
          .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
            const Result<double> seconds =
                ParseNumber("--timeout", values.back(), {.low = 0, .high = 1e9});
            if (!seconds) {
              return Fail(seconds.error());
            }
            options.timeout_s = *seconds;
            return {};
          }};
}

// A flag that turns `target` off.
Setting OffSwitch(std::string name, std::string help, bool& target) {
  const std::string what = fmt::format("--{}", name);
  return {.name = std::move(name),
          .synonyms = {},
          .arity = Setting::Arity::kFlag,
          .placeholder = {},
          .help = std::move(help),
          .apply = [what, &target](const std::vector<std::string>& values) -> Result<void> {
            const Result<bool> off = ParseSwitch(what, values.back());
            if (!off) {
              return Fail(off.error());
            }
            target = !*off;
            return {};
          }};
}

Setting SsdCacheMaxGb(ServeOptions& options) {
  return {
      .name = "ssd-cache-max-gb",
      .synonyms = {},
      .arity = Setting::Arity::kValue,
      .placeholder = "GIB",
      .help = "Most that the disk cache's directory may take (default: a tenth of what is free)",
      .apply = [&options](const std::vector<std::string>& values) -> Result<void> {
        const Result<double> gib =
            ParseNumber("--ssd-cache-max-gb", values.back(), {.low = 0.001, .high = 1e6});
        if (!gib) {
          return Fail(gib.error());
        }
        options.ssd_cache_max_gb = *gib;
        return {};
      }};
}

void AddSamplingDefaults(std::vector<Setting>& settings, ServeOptions& options) {
  settings.push_back(Number("default-temperature", "T", "Temperature where a request has none",
                            options.temperature, {.low = 0, .high = 100}));
  settings.push_back(Number("default-top-p", "P", "top_p where a request has none", options.top_p,
                            {.low = 1e-6, .high = 1}));
  settings.push_back(Whole("default-top-k", "K", "top_k where a request has none; 0: off",
                           options.top_k, {.low = -1, .high = kAnyInt}));
  settings.push_back(Number("default-min-p", "P", "min_p where a request has none", options.min_p,
                            {.low = 0, .high = 1}));
  settings.push_back(Number("default-repetition-penalty", "R",
                            "repetition_penalty where a request has none",
                            options.repetition_penalty, {.low = 1e-6, .high = 100}));
}

}  // namespace

std::vector<Setting> SettingsOf(ServeOptions& options) {
  std::vector<Setting> settings;
  settings.push_back(Argument("model", "MODEL",
                              "Directory (MLX or Hugging Face layout), .gguf file, or a name that "
                              "`emberbank models` lists; may be left out when just one is found",
                              options.model));
  settings.push_back(
      Text("host", "ADDRESS", "Address to listen on (default 127.0.0.1)", options.host));
  settings.push_back(Whole("port", "PORT", "Port to listen on; 0: a free one (default 8000)",
                           options.port, {.low = 0, .high = 65535}));
  settings.push_back(Text("served-model-name", "NAME",
                          "Model's name for clients (default: the directory's or file's)",
                          options.served_model_name));
  settings.push_back(ApiKey(options));
  settings.push_back(Whole("context-length", "TOKENS",
                           "Longest prompt and reply together (default: the model's own)",
                           options.context_length, {.low = 1, .high = kAnyWhole}));
  settings.push_back(Whole("max-tokens", "TOKENS",
                           "Longest reply where a request says nothing; 0: what the context leaves "
                           "(default 0)",
                           options.max_tokens, {.low = 0, .high = kAnyInt}));
  settings.push_back(Whole("max-num-seqs", "N", "Sequences computed together (default 16)",
                           options.max_num_seqs, {.low = 1, .high = 4096}));
  settings.push_back(Whole(
      "max-queue", "N", "Sequences that may wait; more are refused with status 429 (default 256)",
      options.max_queue, {.low = 0, .high = kAnyInt}));
  settings.push_back(Whole("prefill-step-size", "TOKENS", "Tokens computed in a step (default 512)",
                           options.prefill_step_size, {.low = 1, .high = 1 << 20}));
  settings.push_back(OffSwitch("no-repetition-guard",
                               "Let a reply go on that repeats the same tokens without end",
                               options.repetition_guard));
  settings.push_back(Switch("enable-prefix-cache", "Reuse computed prefixes of prompts (default)",
                            options.prefix_cache));
  settings.push_back(OffSwitch("disable-prefix-cache", "Compute every prompt from its start",
                               options.prefix_cache));
  settings.push_back(CacheMemoryPercent(options));
  settings.push_back(CacheMemoryMb(options));
  settings.push_back(Text("ssd-cache-dir", "DIR",
                          "Where computed prefixes are kept on disk (default: emberbank in the "
                          "user's cache directory)",
                          options.ssd_cache_dir));
  settings.push_back(SsdCacheMaxGb(options));
  settings.push_back(
      OffSwitch("no-ssd-cache", "Keep computed prefixes in memory only", options.ssd_cache));
  settings.push_back(KvBits(options));
  AddKvQuantization(settings, options);
  settings.push_back(Whole("threads", "N", "Compute threads (default: physical cores)",
                           options.threads, {.low = 1, .high = 1024}));
  settings.push_back(Timeout(options));
  settings.push_back(MaxRequestBytes(options));
  settings.push_back(LogLevel(options));
  AddSamplingDefaults(settings, options);
  settings.push_back(Text("script", "FILE", "", options.script));
  settings.push_back(
      Text("tool-call-parser", "NAME",
           "Wire format of the model's tool calls (default: found from its template)",
           options.tool_call_parser));
  settings.push_back(Text("reasoning-parser", "NAME",
                          "The same, where --tool-call-parser does not say it",
                          options.reasoning_parser));
  settings.push_back(Switch("enable-auto-tool-choice",
                            "Accepted for other servers' sake: calls are always parsed",
                            options.auto_tool_choice));
  std::ranges::move(PeerSettings(options.without_effect), std::back_inserter(settings));
  return settings;
}

}  // namespace app
