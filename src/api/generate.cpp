#include "api/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "api/choice_text.h"
#include "api/constraint.h"
#include "api/prompt_boundaries.h"
#include "api/thinking_budget.h"

namespace api {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// How often a client that left is noticed; well under a step of a large model.
constexpr milliseconds kPollInterval{50};
constexpr seconds kKeepAliveInterval{1};

// Tokens that each reply may have, or the error of the longest prompt.
Result<int> MaxTokens(const ServedModel& model, const GenerationInput& input,
                      const GenerationOptions& options) {
  std::size_t longest = 0;
  for (const std::vector<TokenId>& prompt : input.prompts) {
    if (prompt.empty()) {
      return Fail(ErrorCode::kInvalidRequest,
                  "The prompt is empty: it has no token to go on from.");
    }
    longest = std::max(longest, prompt.size());
  }
  const std::int64_t left = model.context_length - static_cast<std::int64_t>(longest);
  if (left < 1) {
    return Fail(ErrorCode::kContextLengthExceeded,
                fmt::format("This model's maximum context length is {} tokens. However, your "
                            "messages resulted in {} tokens.{}",
                            model.context_length, longest,
                            left == 0 ? " That leaves no room for a reply." : ""));
  }
  if (model.scripted_tokens > 0) {
    return model.scripted_tokens;
  }
  std::int64_t wanted = options.max_tokens > 0 ? options.max_tokens : model.default_max_tokens;
  wanted = wanted > 0 ? std::min(wanted, left) : left;
  return static_cast<int>(std::min<std::int64_t>(wanted, std::numeric_limits<int>::max()));
}

Result<std::vector<scheduler::Request>> MakeRequests(const ServedModel& model,
                                                     const GenerationInput& input,
                                                     const GenerationOptions& options) {
  const Result<int> max_tokens = MaxTokens(model, input, options);
  if (!max_tokens) {
    return Fail(max_tokens.error());
  }
  std::vector<scheduler::Request> requests;
  for (const std::vector<TokenId>& prompt : input.prompts) {
    const std::vector<std::int64_t> boundaries =
        BoundariesOf(*model.tokenizer, prompt, input.facts);
    for (int choice = 0; choice < options.n; ++choice) {
      Result<std::unique_ptr<TokenConstraint>> constraint = MakeConstraint(model, input, options);
      if (!constraint) {
        return Fail(constraint.error());
      }
      if (options.thinking_budget && options.parse_output && model.scripted_tokens == 0 &&
          !model.parser_format->reasoning.empty()) {
        *constraint =
            WithThinkingBudget(std::move(*constraint), *options.thinking_budget, model, input);
      }
      scheduler::Request request{.prompt = prompt,
                                 .max_tokens = *max_tokens,
                                 .sampling = options.sampling,
                                 .stop_token_ids = model.eos_ids,
                                 .ignore_eos = options.ignore_eos,
                                 .constraint = std::move(*constraint),
                                 .cache_salt = options.cache_salt,
                                 .boundaries = boundaries,
                                 .priority = options.priority};
      // With one seed for all, the choices would be copies of each other.
      if (request.sampling.seed) {
        *request.sampling.seed += static_cast<std::uint64_t>(choice);
      }
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

// One generation under way.
class Generation {
 public:
  Generation(ServedModel& model, const GenerationInput& input, const GenerationOptions& options,
             Reply& reply, GenerationSink& sink, scheduler::TokenStream tokens,
             std::vector<RequestLog::Watched> watched)
      : model_(model),
        options_(options),
        reply_(reply),
        sink_(sink),
        tokens_(std::move(tokens)),
        watched_(std::move(watched)),
        replies_(watched_.size()) {
    const int n_choices = static_cast<int>(input.prompts.size()) * options.n;
    for (int index = 0; index < n_choices; ++index) {
      choices_.push_back(std::make_unique<ChoiceText>(model, input, options, index));
    }
    open_ = choices_.size();
  }

  // Until every choice has finished.
  Result<void> Run() {
    const SteadyClock::time_point begin = SteadyClock::now();
    SteadyClock::time_point last_event = begin;
    while (open_ > 0) {
      const std::optional<scheduler::TokenEvent> event = tokens_.Next(kPollInterval);
      const SteadyClock::time_point now = SteadyClock::now();
      if (reply_.client_gone()) {
        return Fail(ErrorCode::kCancelled,
                    "The client closed its connection, or its side of it, before the answer "
                    "was complete.");
      }
      if (model_.timeout.count() > 0 && now - begin > model_.timeout) {
        return Fail(ErrorCode::kTimeout,
                    fmt::format("The generation took longer than the limit of {} s (--timeout).",
                                model_.timeout.count()));
      }
      if (event) {
        if (Result<void> taken = Take(*event); !taken) {
          return taken;
        }
        last_event = now;
      } else if (tokens_.finished()) {
        return Fail(ErrorCode::kInternal, "The generation ended without a result.");
      } else if (now - last_event >= kKeepAliveInterval) {
        sink_.OnWaiting();
        last_event = now;
      }
    }
    return {};
  }

  // Tells the log of each prompt that was computed.
  void Log() {
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      const scheduler::RequestStats stats = tokens_.stats(static_cast<int>(i) * options_.n);
      if (stats.completion_tokens > 0) {
        model_.requests.Add(std::move(watched_[i]), stats, replies_[i]);
      }
    }
  }

  [[nodiscard]] Usage usage() const {
    Usage usage;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const scheduler::RequestStats stats = tokens_.stats(static_cast<int>(i));
      usage.completion_tokens += choices_[i]->token_count();
      if (i % static_cast<std::size_t>(options_.n) == 0) {
        usage.prompt_tokens += stats.prompt_tokens;
        usage.cached_tokens += stats.cached_tokens;
        usage.disk_tokens += stats.disk_tokens;
        usage.remote_tokens += stats.remote_tokens;
      }
    }
    usage.timings = tokens_.stats(0);
    usage.timings.completion_tokens = choices_.front()->token_count();
    usage.ttft_ms =
        usage.timings.completion_tokens > 0 ? usage.timings.queue_ms + usage.timings.prompt_ms : 0;
    return usage;
  }

 private:
  Result<void> Take(const scheduler::TokenEvent& event) {
    if (event.error) {
      return Fail(*event.error);
    }
    ChoiceText& choice = *choices_[static_cast<std::size_t>(event.sequence)];
    if (choice.finished()) {
      return {};  // what the engine had computed before our Cancel reached it
    }
    if (event.finish == scheduler::FinishReason::kCancelled || !event.token) {
      return Fail(ErrorCode::kShuttingDown, "The server shut down before the answer was complete.");
    }
    const ChoiceEvent out = choice.Push(*event.token, event.finish);
    Remember(event, out);
    if (choice.finished()) {
      --open_;
      tokens_.Cancel(event.sequence);  // a stop string ends it before the engine knows
    }
    if (!out.deltas.empty() || out.finish) {
      if (!std::exchange(prompt_told_, true)) {
        sink_.OnPrompt(usage());
      }
      sink_.OnEvent(out);
    }
    return {};
  }

  // Of a prompt's choices the first.
  void Remember(const scheduler::TokenEvent& event, const ChoiceEvent& out) {
    if (event.sequence % options_.n != 0) {
      return;
    }
    RequestLog::Reply& reply = replies_[static_cast<std::size_t>(event.sequence / options_.n)];
    reply.tokens.push_back(event.token->token);
    for (const chat::StreamEvent& delta : out.deltas) {
      reply.has_reasoning =
          reply.has_reasoning || std::holds_alternative<chat::ReasoningDelta>(delta);
    }
  }

  ServedModel& model_;
  const GenerationOptions& options_;
  Reply& reply_;
  GenerationSink& sink_;
  scheduler::TokenStream tokens_;
  std::vector<RequestLog::Watched> watched_;  // [prompt]
  std::vector<RequestLog::Reply> replies_;    // [prompt]
  std::vector<std::unique_ptr<ChoiceText>> choices_;
  std::size_t open_ = 0;
  bool prompt_told_ = false;
};

}  // namespace

Result<Usage> Generate(ServedModel& model, GenerationInput input, const GenerationOptions& options,
                       Reply& reply, GenerationSink& sink) {
  Result<std::vector<scheduler::Request>> requests = MakeRequests(model, input, options);
  if (!requests) {
    return Fail(requests.error());
  }
  std::vector<RequestLog::Watched> watched;
  for (const std::vector<TokenId>& prompt : input.prompts) {
    watched.push_back(model.requests.Watch(
        *model.tokenizer, {.prompt = prompt,
                           .facts = input.facts,
                           .salt = options.cache_salt,
                           .id = options.request_id,
                           .block_tokens = static_cast<std::size_t>(model.bank_block_tokens)}));
  }
  Result<scheduler::TokenStream> tokens = model.scheduler->Submit(std::move(*requests));
  if (!tokens) {
    return Fail(tokens.error());
  }
  Generation generation(model, input, options, reply, sink, std::move(*tokens), std::move(watched));
  const Result<void> ended = generation.Run();
  const Usage usage = generation.usage();
  reply.ReportUsage(usage);
  generation.Log();
  if (!ended) {
    return Fail(ended.error());
  }
  return usage;
}

}  // namespace api
