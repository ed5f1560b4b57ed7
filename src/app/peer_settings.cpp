#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "app/settings.h"

namespace app {
namespace {

// By the number of values. Collected from the argument parsers of rapid-mlx 0.16.10 and vllm-mlx
// 0.6.0, and from the flags of the field that a later version of this server will honour.
constexpr auto kFlags = std::to_array<std::string_view>({
    "allow-unauthenticated-public",
    "continuous-batching",
    "cua-only",
    "default-mllm-draft",
    "disable-disk-caches",
    "disable-model-downloads",
    "disable-version-check",
    "disk-stream",
    "enable-audio",
    "enable-ddtree",
    "enable-dflash",
    "enable-local-search",
    "enable-metrics",
    "enable-mtp",
    "enable-tool-logits-bias",
    "force-disk-check",
    "force-hybrid",
    "force-openai-harmony-streaming",
    "force-spec-decode",
    "gc-control",
    "lazy-load",
    "lazy-load-model",
    "mllm",
    "mtp-disable-auto-k",
    "mtp-optimistic",
    "no-banner",
    "no-dsv41-lanes",
    "no-gc-control",
    "no-hybrid",
    "no-memory-aware-cache",
    "no-mllm",
    "no-openai-harmony-streaming",
    "no-preflight",
    "no-reasoning-parser",
    "no-spec-decode",
    "no-telemetry",
    "no-think",
    "no-thinking",
    "no-tool-call-parser",
    "offline",
    "pflash-include-tools",
    "pin-system-prompt",
    "prefix-trie-cache",
    "reasoning",
    "relocate-mid-conversation-system",
    "request",
    "simple-engine",
    "specprefill",
    "suffix-decoding",
    "trust-remote-code",
    "use-paged-cache",
    "yes",
});
constexpr auto kValues = std::to_array<std::string_view>({
    "auto-unload-idle-seconds",
    "chunked-prefill-tokens",
    "completion-batch-size",
    "decode-stall-target-ms",
    "default-chat-template-kwargs",
    "default-frequency-penalty",
    "default-presence-penalty",
    "default-reasoning-effort",
    "default-thinking-token-budget",
    "dflash-drafter-path",
    "disk-stream-cache-gb",
    "download-retries",
    "download-timeout",
    "draft-model",
    "dsv41-lanes",
    "embedding-max-inputs",
    "embedding-max-length",
    "embedding-model",
    "embedding-overflow-policy",
    "gpu-memory-utilization",
    "hybrid-cache-entries",
    "idle-cache-clear-seconds",
    "idle-unload-seconds",
    "image-weight-precision",
    "kv-cache-dtype",
    "kv-cache-min-quantize-tokens",
    "kv-cache-quantization-group-size",
    "kv-cache-turboquant-bits",
    "kv-cache-turboquant-group-size",
    "kv-disk-checkpoint-interval",
    "kv-group-size",
    "listen-fd",
    "local-search-dir",
    "log-file",
    "max-audio-upload-mb",
    "max-cache-blocks",
    "max-concurrent-requests",
    "max-kv-size",
    "max-prompt-tokens",
    "max-request-tokens",
    "max-tts-input-chars",
    "mcp-config",
    "memory-budget-gb",
    "metal-cap-kv-bytes-per-token",
    "mllm-draft-block-size",
    "mllm-draft-kind",
    "mllm-draft-model",
    "mllm-media-prefix-cache",
    "mllm-prefill-step-size",
    "mllm-singleton-fastpath",
    "models-config",
    "mtp-max-k",
    "mtp-num-draft-tokens",
    "mtp-sidecar",
    "num-draft-tokens",
    "paged-cache-block-size",
    "pflash",
    "pflash-block-size",
    "pflash-keep-ratio",
    "pflash-min-keep-tokens",
    "pflash-query-window",
    "pflash-sink-tokens",
    "pflash-stride-blocks",
    "pflash-tail-tokens",
    "pflash-threshold",
    "pflash-threshold-basis",
    "prefill-batch-size",
    "prefix-cache-index",
    "prefix-cache-size",
    "prefix-trie-cache-memory-mb",
    "prefix-trie-cache-size",
    "rate-limit",
    "rerank-instruction",
    "rerank-max-documents",
    "rerank-max-length",
    "rerank-model",
    "rerank-model-family",
    "rerank-overflow-policy",
    "rerank-prompt",
    "resident-memory-limit-gb",
    "resident-model-idle-ttl",
    "response-cache-entries",
    "scheduling-max-deferrals",
    "scheduling-policy",
    "shared-prefix-wait-tokens",
    "spec-decode",
    "specprefill-backbone-pct",
    "specprefill-draft-model",
    "specprefill-keep-pct",
    "specprefill-threshold",
    "speculative-config",
    "stream-interval",
    "suffix-max-draft",
    "suffix-max-suffix-len",
    "suffix-min-confidence",
    "suffix-min-draft-len",
    "tensorfold-lanes",
    "video-output-dir",
    "vision-max-pixels",
    "vision-min-pixels",
    "vision-prefill-token-budget",
    "warm-prompts",
    "watchdog-ppid",
});
constexpr auto kOptionalValues = std::to_array<std::string_view>({"kv-cache-turboquant"});
constexpr auto kLists = std::to_array<std::string_view>({"cors-origins", "trusted-hosts"});

// Second names of flags.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kSynonyms = {{
    {"yes", ",-y"},
    {"no-mllm", ",--text-only"},
}};

// What they ask for is how this server works anyway, so they pass without a word.
constexpr auto kAlreadySo = std::to_array<std::string_view>({
    "continuous-batching",
    "enable-metrics",
    "no-telemetry",
    "offline",
    "use-paged-cache",
});

bool Contains(const auto& names, std::string_view name) {
  for (const std::string_view each : names) {
    if (each == name) {
      return true;
    }
  }
  return false;
}

Setting Accepted(std::string_view name, Setting::Arity arity, std::vector<std::string>& given) {
  Setting setting{.name = std::string(name),
                  .synonyms = {},
                  .arity = arity,
                  .placeholder = "VALUE",
                  .help = {},
                  .apply = {}};
  for (const auto& [first, second] : kSynonyms) {
    if (first == name) {
      setting.synonyms = second;
    }
  }
  const bool is_flag = arity == Setting::Arity::kFlag;
  setting.apply = [flag = "--" + setting.name, is_flag, is_so = Contains(kAlreadySo, name),
                   &given](const std::vector<std::string>& values) -> Result<void> {
    if (is_flag) {
      const Result<bool> on = ParseSwitch(flag, values.back());
      if (!on) {
        return Fail(on.error());
      }
      if (!*on) {
        return {};
      }
    }
    if (!is_so && std::ranges::find(given, flag) == given.end()) {
      given.push_back(flag);
    }
    return {};
  };
  return setting;
}

}  // namespace

std::vector<Setting> PeerSettings(std::vector<std::string>& given) {
  std::vector<Setting> settings;
  const auto add = [&](const auto& names, Setting::Arity arity) {
    for (const std::string_view name : names) {
      settings.push_back(Accepted(name, arity, given));
    }
  };
  add(kFlags, Setting::Arity::kFlag);
  add(kValues, Setting::Arity::kValue);
  add(kOptionalValues, Setting::Arity::kOptionalValue);
  add(kLists, Setting::Arity::kList);
  return settings;
}

std::string SayWithoutEffect(const std::string& flag) {
  if (flag == "--hybrid-cache-entries") {
    return "--hybrid-cache-entries is accepted but has no effect: the states of recurrent layers "
           "are "
           "not counted by number, they share the cache's one budget in bytes "
           "(--cache-memory-percent, --cache-memory-mb).";
  }
  return flag + " is accepted but has no effect yet.";
}

}  // namespace app
