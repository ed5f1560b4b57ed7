#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/reply.h"
#include "api/served_model.h"
#include "chat/stream_event.h"
#include "engine/sampler.h"
#include "scheduler/request.h"

namespace api {

// What every protocol's request comes down to.
struct GenerationOptions {
  engine::SamplingParams sampling;
  int max_tokens = 0;                      // 0: default_max_tokens, else what the context leaves; larger is clamped to it
  int n = 1;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool include_stop_text = false;
  bool parse_output = true;                // false: all text is content (completions)
  bool skip_special_tokens = true;
  enum class Format { kText, kJsonObject, kJsonSchema };
  Format format = Format::kText;
  Json schema;
  std::string cache_salt;
  scheduler::Priority priority = scheduler::Priority::kInteractive;
};

// One token with its text, for logprobs.
struct TokenInfo {
  TokenId id = 0;
  std::string bytes;  // raw bytes
  engine::SampledToken sampled;
};

// What a choice emits, in order. `tokens` are those whose text is in this delta or was held back until it; joined over
// all events they are the completion's tokens (the end token excluded unless it is all there is).
struct ChoiceEvent {
  int index = 0;
  std::vector<chat::StreamEvent> deltas;
  std::vector<TokenInfo> tokens;
  std::optional<scheduler::FinishReason> finish;  // last event of the choice
};

struct Usage {
  std::int64_t prompt_tokens = 0;      // once, though n choices share it
  std::int64_t cached_tokens = 0;
  std::int64_t completion_tokens = 0;  // all choices
  scheduler::RequestStats timings;     // of the first choice
};

// THE REQUEST: submit, detokenize, match stop strings, parse, emit; one path for streams and whole answers. Blocks
// until the end. `emit` is called on this thread. While nothing comes, reply.KeepAlive() is called every few seconds
// and reply.client_gone() is asked at least ten times a second: a client that left cancels the generation (kCancelled).
[[nodiscard]] Result<Usage> Generate(ServedModel& model, std::vector<TokenId> prompt, std::string_view prompt_tail,
                                     const std::vector<chat::ToolSpec>& tools, const GenerationOptions& options,
                                     Reply& reply, const std::function<void(const ChoiceEvent&)>& emit);

}  // namespace api
