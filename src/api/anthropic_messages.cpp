#include "api/anthropic_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/answer_form.h"
#include "api/anthropic_conversation.h"
#include "api/anthropic_reply.h"
#include "api/error_body.h"
#include "api/generation_fields.h"
#include "api/prompt.h"

namespace api {
namespace {

// A request, read and checked.
struct MessagesRequest {
  ServedModel* model = nullptr;
  AnthropicConversation input;
  GenerationOptions options;
  MessageForm form;
  bool stream = false;
};

bool HasCacheMark(const Json& value) {
  if (value.is_object() && value.contains("cache_control")) {
    return true;
  }
  return value.is_structured() && std::ranges::any_of(value, HasCacheMark);
}

// `output_config.format`, and `output_format` before it had that name.
void ReadOutputFormat(FieldReader& fields, GenerationOptions& options) {
  const Json* format = fields.Object("output_format");
  if (const Json* config = fields.Object("output_config")) {
    FieldReader inner(*config, "output_config.");
    const Json* newer = inner.Object("format");
    format = newer == nullptr ? format : newer;
    if (inner.error()) {
      fields.FailWith(*inner.error());
    }
  }
  if (format == nullptr) {
    return;
  }
  FieldReader reader(*format, "output_config.format.");
  const Json* schema = reader.Object("schema");
  if (reader.String("type") != "json_schema" || schema == nullptr) {
    reader.FailField("type", "must be \"json_schema\", with the object `schema` beside it.");
    fields.FailWith(*reader.error());
    return;
  }
  options.form = JsonForm(*schema, "output_config.format");
}

Result<MessagesRequest> ReadRequest(ModelManager& models, const ApiRequest& api_request) {
  const Result<BodyAndModel> opened = OpenBody(models, api_request);
  if (!opened) {
    return Fail(opened.error());
  }
  const auto& [body, model] = *opened;
  Result<AnthropicConversation> input = ReadAnthropicConversation(body, model->normalizer);
  if (!input) {
    return Fail(input.error());
  }
  MessagesRequest request;
  request.model = model;
  request.input = std::move(*input);
  FieldReader fields(body);
  request.options = ReadGenerationOptions(fields, *model, api_request);
  request.options.n = 1;
  request.options.stop = ReadStops(fields, "stop_sequences");
  ReadOutputFormat(fields, request.options);
  request.stream = fields.Bool("stream").value_or(false);
  if (const Json* thinking = fields.Object("thinking")) {
    request.form.omits_thinking = thinking->value("display", Json()) == "omitted";
  }
  request.form.counts_cache_writes = HasCacheMark(body);
  if (fields.error()) {
    return Fail(*fields.error());
  }
  return request;
}

// The wording that Anthropic's clients look for.
Error Reworded(Error error, const ServedModel& model, std::size_t prompt_tokens) {
  if (error.code == ErrorCode::kContextLengthExceeded) {
    error.message = fmt::format("prompt is too long: {} tokens > {} maximum", prompt_tokens,
                                model.context_length);
  }
  return error;
}

}  // namespace

void AnthropicMessages(ModelManager& models, const ApiRequest& api_request, Reply& reply) {
  Result<MessagesRequest> request = ReadRequest(models, api_request);
  if (!request) {
    reply.SendError(request.error());
    return;
  }
  Result<chat::RenderedPrompt> prompt = RenderPrompt(*request->model, request->input.conversation);
  if (!prompt) {
    Error error = prompt.error();
    if (error.code == ErrorCode::kContextLengthExceeded) {  // not even counted
      error.message.insert(0, "prompt is too long: ");
    }
    reply.SendError(error);
    return;
  }
  const std::size_t prompt_tokens = prompt->tokens.size();
  PromptFacts facts = FactsOf(request->input.conversation, prompt->text);
  facts.left_out = std::move(request->input.left_out);
  std::ranges::move(request->input.deferred_tools,
                    std::back_inserter(request->input.conversation.tools));
  GenerationInput input = InputOf(std::move(*prompt), std::move(request->input.conversation));
  input.facts = std::move(facts);  // deferred tools are not in the prompt
  const MessageFrame frame{.model = *request->model, .form = request->form, .id = MakeId("msg_")};
  request->options.reply_id = frame.id;
  StreamedMessage stream(frame, reply);
  WholeMessage whole(frame);
  GenerationSink& sink = request->stream ? static_cast<GenerationSink&>(stream) : whole;
  const Result<Usage> usage =
      Generate(*request->model, std::move(input), request->options, reply, sink);
  if (!usage) {
    const Error error = Reworded(usage.error(), *request->model, prompt_tokens);
    if (stream.begun()) {
      reply.SendNamedEvent(ErrorEventName(api_request.path),
                           DumpJson(ErrorBody(api_request.path, error)));
      reply.EndEvents();
    } else {
      reply.SendError(error);
    }
  } else if (request->stream) {
    stream.End(*usage);
  } else {
    reply.SendJson(200, whole.Answer(*usage));
  }
}

void AnthropicCountTokens(ModelManager& models, const ApiRequest& api_request, Reply& reply) {
  const Result<MessagesRequest> request = ReadRequest(models, api_request);
  if (!request) {
    reply.SendError(request.error());
    return;
  }
  const Result<chat::RenderedPrompt> prompt =
      RenderPrompt(*request->model, request->input.conversation);
  if (prompt) {
    reply.SendJson(200, {{"input_tokens", prompt->tokens.size()}});
  } else {
    reply.SendError(prompt.error());
  }
}

}  // namespace api
