#include "api/openai_chat.h"

#include <fmt/format.h>

#include <utility>

#include "api/answer_form.h"
#include "api/error_body.h"
#include "api/generation_fields.h"
#include "api/openai_chat_reply.h"
#include "api/openai_messages.h"
#include "api/prompt.h"

namespace api {
namespace {

// A chat request, read and checked.
struct ChatRequest {
  ServedModel* model = nullptr;
  chat::Conversation conversation;
  GenerationOptions options;
  ChatForm form;
  bool stream = false;
};

void ReadResponseFormat(FieldReader& fields, GenerationOptions& options) {
  const Json* format = fields.Object("response_format");
  if (format == nullptr) {
    return;
  }
  FieldReader inner(*format, "response_format.");
  const std::string type = inner.String("type").value_or("");
  if (type == "json_object") {
    options.form = JsonObjectForm("response_format");
  } else if (type == "json_schema") {
    const Json* holder = inner.Object("json_schema");
    const Json empty = Json::object();
    FieldReader schema_fields(holder == nullptr ? empty : *holder, "response_format.json_schema.");
    const Json* schema = schema_fields.Object("schema");
    if (schema == nullptr) {
      schema_fields.FailField("schema", "must be an object: the JSON schema of the answer.");
      inner.FailWith(*schema_fields.error());
    } else {
      options.form = JsonForm(*schema, "response_format");
    }
  } else if (type != "text") {
    inner.FailField("type", fmt::format("must be \"text\", \"json_object\" or \"json_schema\", "
                                        "got {}.",
                                        DumpJson(type.substr(0, 40))));
  }
  if (inner.error()) {
    fields.FailWith(*inner.error());
  }
}

void ReadLogprobs(FieldReader& fields, ChatRequest& request) {
  request.form.logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs", kTopLogprobs);
  if (top && *top > 0 && !request.form.logprobs) {
    fields.FailField("top_logprobs", "needs `logprobs` to be true.");
  }
  request.options.sampling.logprobs = request.form.logprobs;
  request.options.sampling.top_logprobs = static_cast<int>(top.value_or(0));
}

Result<ChatRequest> ReadChatRequest(ModelManager& models, const ApiRequest& api_request) {
  const Result<BodyAndModel> opened = OpenBody(models, api_request);
  if (!opened) {
    return Fail(opened.error());
  }
  const auto& [body, model] = *opened;
  Result<chat::Conversation> conversation = ReadConversation(body);
  if (!conversation) {
    return Fail(conversation.error());
  }
  ChatRequest request;
  request.model = model;
  request.conversation = std::move(*conversation);
  FieldReader fields(body);
  request.options = ReadGenerationOptions(fields, *model, api_request);
  request.form.n = request.options.n;
  ReadLogprobs(fields, request);
  ReadResponseFormat(fields, request.options);
  request.stream = fields.Bool("stream").value_or(false);
  if (const Json* stream_options = fields.Object("stream_options")) {
    FieldReader inner(*stream_options, "stream_options.");
    request.form.include_usage = inner.Bool("include_usage").value_or(false);
    if (inner.error()) {
      fields.FailWith(*inner.error());
    }
  }
  if (fields.error()) {
    return Fail(*fields.error());
  }
  return request;
}

void Stream(ChatRequest& request, GenerationInput input, ChatFrame frame,
            const ApiRequest& api_request, Reply& reply) {
  StreamedChat sink(std::move(frame), reply);
  const Result<Usage> usage =
      Generate(*request.model, std::move(input), request.options, reply, sink);
  if (usage) {
    sink.End(*usage);
  } else if (sink.begun()) {
    reply.SendEvent(DumpJson(ErrorBody(api_request.path, usage.error())));
    reply.EndEvents();
  } else {
    reply.SendError(usage.error());
  }
}

void AnswerWhole(ChatRequest& request, GenerationInput input, ChatFrame frame, Reply& reply) {
  WholeChat sink(std::move(frame));
  const Result<Usage> usage =
      Generate(*request.model, std::move(input), request.options, reply, sink);
  if (usage) {
    reply.SendJson(200, sink.Answer(*usage));
  } else {
    reply.SendError(usage.error());
  }
}

}  // namespace

void ChatCompletions(ModelManager& models, const ApiRequest& api_request, Reply& reply) {
  Result<ChatRequest> request = ReadChatRequest(models, api_request);
  if (!request) {
    reply.SendError(request.error());
    return;
  }
  Result<chat::RenderedPrompt> prompt = RenderPrompt(*request->model, request->conversation);
  if (!prompt) {
    reply.SendError(prompt.error());
    return;
  }
  GenerationInput input = InputOf(std::move(*prompt), std::move(request->conversation));
  ChatFrame frame{.model = *request->model,
                  .form = request->form,
                  .id = MakeId("chatcmpl-"),
                  .created = UnixNow()};
  request->options.reply_id = frame.id;
  if (request->stream) {
    Stream(*request, std::move(input), std::move(frame), api_request, reply);
  } else {
    AnswerWhole(*request, std::move(input), std::move(frame), reply);
  }
}

}  // namespace api
