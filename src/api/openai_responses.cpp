#include "api/openai_responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "api/answer_form.h"
#include "api/generation_fields.h"
#include "api/prompt.h"
#include "api/responses_input.h"
#include "api/responses_reply.h"

namespace api {
namespace {

// A request, read and checked.
struct ResponsesRequest {
  ServedModel* model = nullptr;
  chat::Conversation conversation;
  ResponsesTools tools;
  GenerationOptions options;
  Json input = Json::array();  // items of this turn
  Json base;                   // the response object's own part (ResponseFrame)
  std::string previous_id;
  bool shows_summary = false;
  bool seals_reasoning = false;
  bool store = true;
  bool stream = false;
};

// A string is one message of the user.
Json InputItems(FieldReader& fields) {
  const Json* input = fields.Find("input");
  if (input == nullptr || (input->is_array() && input->empty())) {
    fields.FailField("input", "is missing: a string or a list of items is expected.");
  } else if (input->is_string()) {
    return Json::array({{{"type", "message"}, {"role", "user"}, {"content", *input}}});
  } else if (!input->is_array()) {
    fields.FailField("input",
                     fmt::format("must be a string or a list of items, got {}.", KindOf(*input)));
  } else {
    return *input;
  }
  return Json::array();
}

void ReadTextFormat(FieldReader& fields, GenerationOptions& options) {
  const Json* text = fields.Object("text");
  if (text == nullptr) {
    return;
  }
  FieldReader outer(*text, "text.");
  if (const Json* format = outer.Object("format")) {
    FieldReader inner(*format, "text.format.");
    const std::string type = inner.String("type").value_or("text");
    const Json* schema = inner.Object("schema");
    if (type == "json_object") {
      options.form = JsonObjectForm("text.format");
    } else if (type == "json_schema" && schema != nullptr) {
      options.form = JsonForm(*schema, "text.format");
    } else if (type == "json_schema") {
      inner.FailField("schema", "must be an object: the JSON schema of the answer.");
    } else if (type != "text") {
      inner.FailField("type",
                      fmt::format("must be \"text\", \"json_object\" or \"json_schema\", got {}.",
                                  DumpJson(type.substr(0, 40))));
    }
    if (inner.error()) {
      outer.FailWith(*inner.error());
    }
  }
  if (outer.error()) {
    fields.FailWith(*outer.error());
  }
}

void ReadReasoning(FieldReader& fields, ResponsesRequest& request) {
  if (const Json* reasoning = fields.Object("reasoning")) {
    FieldReader inner(*reasoning, "reasoning.");
    if (const auto effort = inner.String("effort")) {
      request.conversation.template_kwargs["reasoning_effort"] = *effort;
      if (*effort == "none") {
        request.conversation.template_kwargs["enable_thinking"] = false;
      }
    }
    request.shows_summary = inner.String("summary").value_or("none") != "none";
    if (inner.error()) {
      fields.FailWith(*inner.error());
    }
  }
  if (const Json* include = fields.Array("include")) {
    request.seals_reasoning =
        std::ranges::find(*include, Json("reasoning.encrypted_content")) != include->end();
  }
}

void RefuseWhatIsNotThere(FieldReader& fields) {
  if (fields.Bool("background").value_or(false)) {
    fields.FailWith({.code = ErrorCode::kUnsupported,
                     .message = "`background` responses are not supported; stream them instead.",
                     .param = "background"});
  }
  if (fields.Find("conversation") != nullptr) {
    fields.FailWith({.code = ErrorCode::kUnsupported,
                     .message = "`conversation` is not supported; use `previous_response_id`.",
                     .param = "conversation"});
  }
}

// What the response says of its request, with the protocol's defaults.
Json BaseJson(const Json& body, const ResponsesRequest& request) {
  static const std::array<std::pair<const char*, Json>, 12> kEchoed = {
      {{"instructions", nullptr},
       {"max_output_tokens", nullptr},
       {"metadata", Json::object()},
       {"parallel_tool_calls", true},
       {"previous_response_id", nullptr},
       {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
       {"text", {{"format", {{"type", "text"}}}}},
       {"tool_choice", "auto"},
       {"tools", Json::array()},
       {"top_logprobs", 0},
       {"truncation", "disabled"},
       {"user", nullptr}}};
  Json base = {{"id", MakeId("resp_")},
               {"object", "response"},
               {"created_at", UnixNow()},
               {"status", "in_progress"},
               {"background", false},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", request.model->name},
               {"output", Json::array()},
               {"usage", nullptr},
               {"store", request.store},
               {"temperature", request.options.sampling.temperature},
               {"top_p", request.options.sampling.top_p}};
  for (const auto& [name, absent] : kEchoed) {
    const auto given = body.find(name);
    base[name] = given == body.end() || given->is_null() ? absent : *given;
  }
  return base;
}

Result<ResponsesRequest> ReadRequest(ModelManager& models, ResponseStore& store,
                                     const ApiRequest& api_request) {
  const Result<BodyAndModel> opened = OpenBody(models, api_request);
  if (!opened) {
    return Fail(opened.error());
  }
  const auto& [body, model] = *opened;
  ResponsesRequest request;
  request.model = model;
  FieldReader fields(body);
  RefuseWhatIsNotThere(fields);
  request.input = InputItems(fields);
  OfferedTools offered = ReadResponsesTools(fields, request.tools);
  request.conversation.tools = std::move(offered.tools);
  request.conversation.tool_choice = std::move(offered.choice);
  request.options = ReadGenerationOptions(fields, *model, api_request);
  request.options.n = 1;
  request.options.max_tokens =
      ToInt(fields.Integer("max_output_tokens", kMaxTokens).value_or(request.options.max_tokens));
  ReadTextFormat(fields, request.options);
  ReadReasoning(fields, request);
  request.store = fields.Bool("store").value_or(true);
  request.stream = fields.Bool("stream").value_or(false);
  request.previous_id = fields.String("previous_response_id").value_or("");
  const std::string instructions = fields.String("instructions").value_or("");
  if (fields.error()) {
    return Fail(*fields.error());
  }
  const std::optional<Json> earlier = store.Conversation(request.previous_id, api_request.tenant);
  if (!earlier) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("The previous_response_id {} is not stored here (any more); send the "
                            "whole conversation as `input`.",
                            DumpJson(request.previous_id.substr(0, 80))),
                "previous_response_id");
  }
  Result<std::vector<chat::Message>> messages =
      ReadResponsesItems(instructions, *earlier, request.input);
  if (!messages) {
    return Fail(messages.error());
  }
  request.conversation.messages = std::move(*messages);
  if (request.conversation.messages.empty()) {
    return Fail(ErrorCode::kInvalidRequest, "`input` must have at least one message.", "input");
  }
  request.base = BaseJson(body, request);
  return request;
}

void SendNotFound(const std::string& id, Reply& reply) {
  reply.SendError(
      {.code = ErrorCode::kNotFound,
       .message = fmt::format("There is no stored response {}.", DumpJson(id.substr(0, 80))),
       .param = "response_id"});
}

std::string IdOf(const ApiRequest& request) {
  const auto id = request.path_params.find("id");
  return id == request.path_params.end() ? std::string() : id->second;
}

}  // namespace

void CreateResponse(ModelManager& models, ResponseStore& store, const ApiRequest& api_request,
                    Reply& reply) {
  Result<ResponsesRequest> request = ReadRequest(models, store, api_request);
  if (!request) {
    reply.SendError(request.error());
    return;
  }
  Result<chat::RenderedPrompt> prompt = RenderPrompt(*request->model, request->conversation);
  if (!prompt) {
    reply.SendError(prompt.error());
    return;
  }
  const ResponseFrame frame{.model = *request->model,
                            .base = request->base,
                            .tools = request->tools,
                            .shows_summary = request->shows_summary,
                            .seals_reasoning = request->seals_reasoning};
  request->options.reply_id = request->base["id"].get<std::string>();
  StreamedResponse stream(frame, reply);
  WholeResponse whole(frame);
  ResponseItems& sink = request->stream ? static_cast<ResponseItems&>(stream) : whole;
  const Result<Usage> usage =
      Generate(*request->model, InputOf(std::move(*prompt), std::move(request->conversation)),
               request->options, reply, sink);
  if (!usage) {
    if (stream.begun()) {
      sink.Fail(usage.error());
      reply.EndEvents();
    } else {
      reply.SendError(usage.error());
    }
    return;
  }
  const Json response = sink.Answer(*usage);
  if (request->store) {  // before the client can name it
    store.Put({.tenant = api_request.tenant,
               .previous_id = request->previous_id,
               .input = std::move(request->input),
               .response = response});
  }
  if (request->stream) {
    sink.End(response);
    reply.EndEvents();
  } else {
    reply.SendJson(200, response);
  }
}

void GetResponse(ModelManager& /*models*/, ResponseStore& store, const ApiRequest& request,
                 Reply& reply) {
  if (const auto entry = store.Get(IdOf(request), request.tenant)) {
    reply.SendJson(200, entry->response);
  } else {
    SendNotFound(IdOf(request), reply);
  }
}

void DeleteResponse(ModelManager& /*models*/, ResponseStore& store, const ApiRequest& request,
                    Reply& reply) {
  if (store.Remove(IdOf(request), request.tenant)) {
    reply.SendJson(200, {{"id", IdOf(request)}, {"object", "response"}, {"deleted", true}});
  } else {
    SendNotFound(IdOf(request), reply);
  }
}

void CancelResponse(ModelManager& /*models*/, ResponseStore& store, const ApiRequest& request,
                    Reply& reply) {
  if (store.Get(IdOf(request), request.tenant)) {
    reply.SendError({.code = ErrorCode::kInvalidRequest,
                     .message = "Only background responses can be cancelled; this one is complete.",
                     .param = "response_id"});
  } else {
    SendNotFound(IdOf(request), reply);
  }
}

void ListInputItems(ModelManager& /*models*/, ResponseStore& store, const ApiRequest& request,
                    Reply& reply) {
  const auto entry = store.Get(IdOf(request), request.tenant);
  if (!entry) {
    SendNotFound(IdOf(request), reply);
    return;
  }
  reply.SendJson(200, {{"object", "list"}, {"data", entry->input}, {"has_more", false}});
}

}  // namespace api
