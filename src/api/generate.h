#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/reply.h"
#include "api/request_log.h"
#include "api/served_model.h"
#include "api/usage.h"
#include "chat/stream_event.h"
#include "engine/sampler.h"
#include "scheduler/request.h"

namespace api {

// The form that a client asks of the answer.
struct AnswerForm {
  enum class Kind { kText, kJsonSchema, kRegex, kChoice, kGrammar };
  Kind kind = Kind::kText;
  Json schema = {};                       // of kJsonSchema
  std::string text = {};                  // the regular expression, or the grammar in Lark
  std::vector<std::string> choices = {};  // of kChoice, not empty
  std::string param = {};                 // the field that asked, for errors
};

// What every protocol's request comes down to.
struct GenerationOptions {
  engine::SamplingParams sampling = {};
  int max_tokens = 0;  // 0: default_max_tokens, else what the context leaves; larger is clamped
  int n = 1;           // choices of each prompt
  std::vector<std::string> stop = {};
  bool ignore_eos = false;
  bool include_stop_text = false;
  bool parse_output = true;  // false: all text is content (completions)
  bool skip_special_tokens = true;
  AnswerForm form = {};
  std::optional<int> thinking_budget = {};  // tokens of reasoning, then it is ended
  std::string cache_salt = {};
  std::string request_id = {};
  std::string reply_id = {};  // of the answer, as a stream tells it
  scheduler::Priority priority = scheduler::Priority::kInteractive;
};

// What to go on from.
struct GenerationInput {
  std::vector<std::vector<TokenId>> prompts =
      {};                        // not empty, each a request of its own in one batch
  std::string prompt_tail = {};  // end of the rendered prompt, for the parser
  std::vector<chat::ToolSpec> tools = {};
  PromptFacts facts = {};  // for the log of requests
  chat::ToolChoice tool_choice = {};
  std::string latest = {};  // text of the user's and tools' messages after the last reply
};

// One token with its text, for logprobs.
struct TokenInfo {
  TokenId id = 0;
  engine::SampledToken sampled = {};
};

// What a choice emits, in order. `tokens` are those whose text is in this delta or was held back
// until it; joined over all events they are the choice's tokens, the end token included.
struct ChoiceEvent {
  int index = 0;  // prompt * n + choice
  std::vector<chat::StreamEvent> deltas = {};
  std::vector<TokenInfo> tokens = {};
  std::optional<scheduler::FinishReason> finish = {};  // last event of the choice: kStop or kLength
  std::optional<std::string> stop_text = {};           // the stop string that ended it
};

// Where a generation goes: a stream or an answer that is collected. Called by the thread that runs
// Generate.
class GenerationSink {
 public:
  GenerationSink() = default;
  GenerationSink(const GenerationSink&) = delete;
  GenerationSink& operator=(const GenerationSink&) = delete;
  virtual ~GenerationSink() = default;

  // Once, before the first OnEvent: the prompt is computed. `usage` has its figures.
  virtual void OnPrompt(const Usage& /*usage*/) {}
  virtual void OnEvent(const ChoiceEvent& event) = 0;
  // Nothing has come for a second: the place for keep-alives.
  virtual void OnWaiting() = 0;
};

// THE REQUEST: submit, detokenize, match stop strings, parse, emit; one path for streams and whole
// answers. Blocks until the end. reply.client_gone() is asked at least ten times a second: a client
// that left cancels the generation (kCancelled). Before the first OnEvent or OnWaiting an error
// can still be answered with a status.
[[nodiscard]] Result<Usage> Generate(ServedModel& model, GenerationInput input,
                                     const GenerationOptions& options, Reply& reply,
                                     GenerationSink& sink);

}  // namespace api
