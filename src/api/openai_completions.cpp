#include "api/openai_completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/error_body.h"
#include "api/generation_fields.h"
#include "api/openai_completions_reply.h"
#include "api/validation.h"

namespace api {
namespace {

// A text completion request, read and checked.
struct CompletionRequest {
  ServedModel* model = nullptr;
  GenerationOptions options;
  GenerationInput input;
  CompletionForm form;
  bool stream = false;
};

bool IsIds(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const Json& item) { return item.is_number(); });
}

std::optional<std::vector<TokenId>> ReadIds(FieldReader& fields, const std::string& name,
                                            const Json& list, int vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& id = list[i];
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= vocab_size) {
      fields.FailField(fmt::format("{}[{}]", name, i),
                       fmt::format("must be a token id from 0 to {}, got {}.", vocab_size - 1,
                                   DumpJson(id).substr(0, 40)));
      return std::nullopt;
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

// One prompt: a text or a list of token ids.
std::optional<std::vector<TokenId>> ReadPrompt(FieldReader& fields, const std::string& name,
                                               const Json& prompt, const ServedModel& model,
                                               bool add_special) {
  if (IsIds(prompt)) {
    return ReadIds(fields, name, prompt, model.scheduler->facts().vocab_size);
  }
  if (!prompt.is_string()) {
    fields.FailField(
        name, fmt::format("must be a string or a list of token ids, got {}.",
                          prompt.is_array() && prompt.empty() ? "an empty list" : KindOf(prompt)));
    return std::nullopt;
  }
  const auto& text = prompt.get_ref<const std::string&>();
  if (const Result<void> fits = model.tokenizer->CheckLength(text, model.context_length); !fits) {
    fields.FailWith(fits.error());
    return std::nullopt;
  }
  Result<std::vector<TokenId>> ids =
      model.tokenizer->Encode(text, chat::Tokenizer::SpecialTokens::kParse, add_special);
  if (!ids) {
    fields.FailWith(ids.error());
    return std::nullopt;
  }
  if (ids->empty()) {
    fields.FailField(name, "must not be empty: there is no token to go on from.");
    return std::nullopt;
  }
  return std::move(*ids);
}

// `prompt`: a text, a list of texts, a list of token ids, or a list of such lists.
void ReadPrompts(FieldReader& fields, bool echo, CompletionRequest& request) {
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.FailField("prompt", "is missing: a string or a list of token ids is expected.");
    return;
  }
  const bool is_list = prompt->is_array() && !prompt->empty() && !IsIds(*prompt);
  const std::size_t count = is_list ? prompt->size() : 1;
  if (count * static_cast<std::size_t>(request.options.n) > kMaxPrompts) {
    fields.FailField("prompt",
                     fmt::format("must have at most {} prompts (times `n`), got {} times {}.",
                                 kMaxPrompts, count, request.options.n));
    return;
  }
  const bool add_special = fields.Bool("add_special_tokens").value_or(true);
  for (std::size_t i = 0; i < count && !fields.error(); ++i) {
    const Json& one = is_list ? (*prompt)[i] : *prompt;
    const std::string name = is_list ? fmt::format("prompt[{}]", i) : "prompt";
    auto ids = ReadPrompt(fields, name, one, *request.model, add_special);
    if (!ids) {
      return;
    }
    if (echo) {
      request.form.echoes.push_back(
          one.is_string()
              ? one.get<std::string>()
              : request.model->tokenizer->Decode(*ids, /*skip_special=*/false).value_or(""));
    }
    request.input.prompts.push_back(std::move(*ids));
  }
}

void RefuseWhatIsNotThere(FieldReader& fields, const CompletionRequest& request, bool echo) {
  if (const auto suffix = fields.String("suffix"); suffix && !suffix->empty()) {
    fields.FailWith({.code = ErrorCode::kUnsupported,
                     .message = "`suffix` is not supported: text is only added at the end.",
                     .param = "suffix"});
  }
  if (const auto best_of = fields.Integer("best_of", kChoices);
      best_of && *best_of != request.options.n) {
    fields.FailWith({.code = ErrorCode::kUnsupported,
                     .message = fmt::format("`best_of` must be the same as `n` ({}), got {}: "
                                            "choices are not ranked.",
                                            request.options.n, *best_of),
                     .param = "best_of"});
  }
  if (echo && request.form.logprobs) {
    fields.FailWith({.code = ErrorCode::kUnsupported,
                     .message = "`echo` together with `logprobs` is not supported: there are no "
                                "log-probabilities of prompt tokens.",
                     .param = "echo"});
  }
}

Result<CompletionRequest> ReadCompletionRequest(ModelManager& models,
                                                const ApiRequest& api_request) {
  const Result<BodyAndModel> opened = OpenBody(models, api_request);
  if (!opened) {
    return Fail(opened.error());
  }
  const auto& [body, model] = *opened;
  CompletionRequest request;
  request.model = model;
  FieldReader fields(body);
  request.options = ReadGenerationOptions(fields, *model, api_request);
  request.options.parse_output = false;
  request.form.n = request.options.n;
  const auto logprobs = fields.Integer("logprobs", kTopLogprobs);
  request.form.logprobs = logprobs.has_value();
  request.options.sampling.logprobs = logprobs.has_value();
  request.options.sampling.top_logprobs = static_cast<int>(logprobs.value_or(0));
  const bool echo = fields.Bool("echo").value_or(false);
  request.form.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  request.stream = fields.Bool("stream").value_or(false);
  if (const Json* stream_options = fields.Object("stream_options")) {
    FieldReader inner(*stream_options, "stream_options.");
    request.form.include_usage = inner.Bool("include_usage").value_or(false);
    if (inner.error()) {
      fields.FailWith(*inner.error());
    }
  }
  RefuseWhatIsNotThere(fields, request, echo);
  if (!fields.error()) {
    ReadPrompts(fields, echo, request);
  }
  if (fields.error()) {
    return Fail(*fields.error());
  }
  request.form.prompt_ids = request.input.prompts;
  return request;
}

void Stream(CompletionRequest request, const ApiRequest& api_request, Reply& reply) {
  StreamedCompletion sink(CompletionFrame(*request.model, std::move(request.form)), reply);
  const Result<Usage> usage =
      Generate(*request.model, std::move(request.input), request.options, reply, sink);
  if (usage) {
    sink.End(*usage);
  } else if (sink.begun()) {
    reply.SendEvent(DumpJson(ErrorBody(api_request.path, usage.error())));
    reply.EndEvents();
  } else {
    reply.SendError(usage.error());
  }
}

void AnswerWhole(CompletionRequest request, Reply& reply) {
  WholeCompletion sink(CompletionFrame(*request.model, std::move(request.form)));
  const Result<Usage> usage =
      Generate(*request.model, std::move(request.input), request.options, reply, sink);
  if (usage) {
    reply.SendJson(200, sink.Answer(*usage));
  } else {
    reply.SendError(usage.error());
  }
}

}  // namespace

void Completions(ModelManager& models, const ApiRequest& api_request, Reply& reply) {
  Result<CompletionRequest> request = ReadCompletionRequest(models, api_request);
  if (!request) {
    reply.SendError(request.error());
  } else if (request->stream) {
    Stream(std::move(*request), api_request, reply);
  } else {
    AnswerWhole(std::move(*request), reply);
  }
}

}  // namespace api
