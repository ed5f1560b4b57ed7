#include "api/openai_responses.h"

#include <gtest/gtest.h>

#include "api/reasoning_seal.h"
#include "api/responses_input.h"
#include "api/responses_reply.h"
#include "api/testing_served_model.h"

namespace api {
namespace {

void Post(ModelManager& models, ResponseStore& store, const Json& body, RecordedReply& reply,
          const std::string& tenant = "") {
  ApiRequest request;
  request.method = "POST";
  request.path = "/v1/responses";
  request.tenant = tenant;
  request.body = DumpJson(body);
  CreateResponse(models, store, request, reply);
}

std::vector<std::string> EventTypes(const RecordedReply& reply) {
  std::vector<std::string> types;
  for (const Json& chunk : reply.chunks) {
    types.push_back(chunk["type"].get<std::string>());
  }
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

TEST(Responses, AWholeAnswerHasItsMessageAndUsage) {
  ScriptedModel models;
  ResponseStore store;
  RecordedReply reply;
  Post(models, store, {{"input", "hi"}, {"instructions", "Be brief."}}, reply);
  ASSERT_EQ(reply.status, 200) << reply.error.value_or(Error{}).message;
  EXPECT_EQ(reply.body["status"], "completed");
  EXPECT_EQ(reply.body["instructions"], "Be brief.");
  const Json& item = reply.body["output"][0];
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["content"][0]["text"], "Good day.");
  EXPECT_GT(reply.body["usage"]["input_tokens"], 0);
  EXPECT_EQ(reply.body["usage"]["input_tokens_details"]["cached_tokens"], 0);
}

TEST(Responses, AStreamHasTheWholeLifeCycleInOrder) {
  ScriptedModel models;
  ResponseStore store;
  RecordedReply reply;
  Post(models, store, {{"input", "hi"}, {"stream", true}}, reply);
  EXPECT_EQ(
      EventTypes(reply),
      (std::vector<std::string>{
          "response.created", "response.in_progress", "response.output_item.added",
          "response.content_part.added", "response.output_text.delta", "response.output_text.done",
          "response.content_part.done", "response.output_item.done", "response.completed"}));
  for (std::size_t i = 0; i < reply.chunks.size(); ++i) {
    EXPECT_EQ(reply.chunks[i]["sequence_number"], i);
  }
  const Json& last = reply.chunks.back()["response"];
  EXPECT_EQ(last["output"][0]["content"][0]["text"], "Good day.");
  EXPECT_EQ(last["id"], reply.chunks.front()["response"]["id"]);
}

TEST(Responses, ATokenLimitMakesItIncomplete) {
  ScriptedModel models;
  ResponseStore store;
  RecordedReply reply;
  Post(models, store, {{"input", "hi"}, {"max_output_tokens", 1}}, reply);
  EXPECT_EQ(reply.body["status"], "incomplete");
  EXPECT_EQ(reply.body["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(Responses, AFailureInTheStreamIsItsLastEvent) {
  ScriptedModel models({.fails_at_end = true});
  ResponseStore store;
  RecordedReply reply;
  Post(models, store, {{"input", "hi"}, {"stream", true}}, reply);
  EXPECT_EQ(reply.chunks.back()["type"], "response.failed");
  EXPECT_FALSE(reply.chunks.back()["response"]["error"]["message"].empty());
}

TEST(Responses, APreviousResponseIsTheBeginningOfTheConversation) {
  ScriptedModel models;
  ResponseStore store;
  RecordedReply first;
  Post(models, store, {{"input", "one"}}, first, "alice");
  RecordedReply second;
  Post(models, store, {{"input", "two"}, {"previous_response_id", first.body["id"]}}, second,
       "alice");
  RecordedReply whole;
  Post(models, store,
       {{"input", Json::array({{{"role", "user"}, {"content", "one"}},
                               first.body["output"][0],
                               {{"role", "user"}, {"content", "two"}}})}},
       whole, "alice");
  ASSERT_EQ(second.status, 200);
  EXPECT_EQ(second.body["usage"]["input_tokens"], whole.body["usage"]["input_tokens"]);

  RecordedReply foreign;
  Post(models, store, {{"input", "two"}, {"previous_response_id", first.body["id"]}}, foreign,
       "bob");
  ASSERT_TRUE(foreign.error);
  EXPECT_EQ(foreign.error->code, ErrorCode::kNotFound);
  EXPECT_NE(foreign.error->message.find("previous_response"), std::string::npos);
}

TEST(Responses, StoredAnswersCanBeReadAndDeleted) {
  ScriptedModel models;
  ResponseStore store;
  RecordedReply made;
  Post(models, store, {{"input", "one"}}, made);
  ApiRequest request;
  request.path_params["id"] = made.body["id"];
  RecordedReply got;
  GetResponse(models, store, request, got);
  EXPECT_EQ(got.body, made.body);
  RecordedReply items;
  ListInputItems(models, store, request, items);
  EXPECT_EQ(items.body["data"][0]["content"], "one");
  RecordedReply deleted;
  DeleteResponse(models, store, request, deleted);
  EXPECT_EQ(deleted.body["deleted"], true);
  RecordedReply gone;
  GetResponse(models, store, request, gone);
  EXPECT_EQ(gone.error->code, ErrorCode::kNotFound);

  RecordedReply unstored;
  Post(models, store, {{"input", "one"}, {"store", false}}, unstored);
  request.path_params["id"] = unstored.body["id"];
  RecordedReply never;
  GetResponse(models, store, request, never);
  EXPECT_TRUE(never.error);
}

TEST(Responses, BadFieldsAreRefusedByName) {
  ScriptedModel models;
  ResponseStore store;
  for (const auto& [fields, param] : std::vector<std::pair<Json, std::string>>{
           {{{"input", nullptr}}, "input"},
           {{{"input", 5}}, "input"},
           {{{"input", Json::array({5})}}, "input[0]"},
           {{{"input", Json::array({{{"role", "user"}, {"content", 5}}})}}, "input[0].content"},
           {{{"input", Json::array({{{"type", "function_call"}, {"call_id", "c"}}})}},
            "input[0].name"},
           {{{"tools", Json::array({{{"type", "function"}}})}}, "tools[0].name"},
           {{{"text", {{"format", {{"type", "xml"}}}}}}, "text.format.type"},
           {{{"max_output_tokens", 0}}, "max_output_tokens"},
           {{{"background", true}}, "background"},
           {{{"conversation", "conv_1"}}, "conversation"},
       }) {
    Json body = {{"input", "hi"}};
    body.update(fields);
    RecordedReply reply;
    Post(models, store, body, reply);
    ASSERT_TRUE(reply.error) << DumpJson(body);
    EXPECT_EQ(reply.error->param, param) << reply.error->message;
  }
}

TEST(ResponsesInput, WhatOneReplyWasMadeOfIsOneMessage) {
  const Json input = ParseJson(R"([
      {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "D"}]},
      {"role": "user", "content": "U"},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}],
       "content": [{"type": "reasoning_text", "text": "long"}]},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\": 1}"},
      {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "raw"},
      {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text",
       "text": "R"}]},
      {"type": "custom_tool_call_output", "call_id": "c2", "output": "S"},
      {"type": "function_call", "call_id": "c3", "namespace": "mcp", "name": "g",
       "arguments": "{}"},
      {"type": "web_search_call", "id": "w"}])")
                         .value();
  const auto messages = ReadResponsesItems("I", Json::array(), input).value();
  ASSERT_EQ(messages.size(), 7U);
  EXPECT_EQ(messages[0].content, "I");
  EXPECT_EQ(messages[1].role, chat::Role::kDeveloper);
  const chat::Message& reply = messages[3];
  EXPECT_EQ(reply.reasoning, "long");
  EXPECT_EQ(reply.content, "A");
  ASSERT_EQ(reply.tool_calls.size(), 2U);
  EXPECT_EQ(reply.tool_calls[0].arguments["x"], 1);
  EXPECT_EQ(reply.tool_calls[1].arguments["input"], "raw");
  EXPECT_EQ(messages[4].content, "R");
  EXPECT_EQ(messages[5].tool_call_id, "c2");
  EXPECT_EQ(messages[6].tool_calls[0].name, "mcp__g");
}

TEST(ResponsesInput, SealedReasoningIsPreferred) {
  const Json input = Json::array({{{"type", "reasoning"},
                                   {"summary", Json::array()},
                                   {"encrypted_content", SealReasoning("all of it")}}});
  EXPECT_EQ(ReadResponsesItems("", Json::array(), input).value()[0].reasoning, "all of it");
}

TEST(ResponsesInput, ToolsOfEveryKindAreFunctionsToTheModel) {
  const Json body = ParseJson(R"({"tools": [
      {"type": "function", "name": "f", "parameters": {"type": "object"}},
      {"type": "custom", "name": "patch", "description": "d",
       "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
      {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "ping"}]},
      {"type": "web_search"}, {"type": "image_generation"}]})")
                        .value();
  FieldReader fields(body);
  ResponsesTools tools;
  const auto specs = ReadResponsesTools(fields, tools).tools;
  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(specs[1].name, "patch");
  EXPECT_NE(specs[1].description.find("start: /.+/"), std::string::npos);
  EXPECT_EQ(specs[2].name, "mcp__ping");
  EXPECT_EQ(tools.at("mcp__ping").name_space, "mcp");
  EXPECT_EQ(tools.at("patch").kind, ResponsesTool::Kind::kCustom);
}

// What a model's calls become, without a model.
class CollectedResponse final : public ResponseItems {
 public:
  using ResponseItems::ResponseItems;
  void OnWaiting() override {}
  std::vector<Json> events;

 private:
  void Emit(Json event) override { events.push_back(std::move(event)); }
};

TEST(ResponsesReply, CallsKeepTheirKind) {
  ScriptedModel models;
  const ResponsesTools tools = {{"f", {.name = "f"}},
                                {"mcp__ping", {.name = "ping", .name_space = "mcp"}},
                                {"patch", {.kind = ResponsesTool::Kind::kCustom, .name = "patch"}}};
  CollectedResponse response(
      {.model = models.model, .base = Json::object(), .tools = tools, .seals_reasoning = true});
  response.OnEvent(
      {.deltas = {chat::ReasoningDelta{"hm"}, chat::ToolCallBegin{0, "c0", "f"},
                  chat::ToolArgumentsDelta{0, "{\"a\""}, chat::ToolArgumentsDelta{0, ": 1}"},
                  chat::ToolCallEnd{0}, chat::ToolCallBegin{1, "c1", "mcp__ping"},
                  chat::ToolArgumentsDelta{1, "{}"}, chat::ToolCallEnd{1},
                  chat::ToolCallBegin{2, "c2", "patch"},
                  chat::ToolArgumentsDelta{2, "{\"input\": \"*** Begin\\n\"}"},
                  chat::ToolCallEnd{2}},
       .finish = scheduler::FinishReason::kStop});
  const Json answer = response.Answer({});
  const Json& output = answer["output"];
  ASSERT_EQ(output.size(), 4U);
  EXPECT_EQ(UnsealReasoning(output[0]["encrypted_content"].get<std::string>()), "hm");
  EXPECT_EQ(output[1]["arguments"], "{\"a\": 1}");
  EXPECT_EQ(output[1]["call_id"], "c0");
  EXPECT_NE(output[1]["id"], "c0");
  EXPECT_EQ(output[2]["name"], "ping");
  EXPECT_EQ(output[2]["namespace"], "mcp");
  EXPECT_EQ(output[3]["type"], "custom_tool_call");
  EXPECT_EQ(output[3]["input"], "*** Begin\n");
  // Every event of an item names it.
  for (const Json& event : response.events) {
    if (event.contains("item_id")) {
      EXPECT_EQ(event["item_id"], output[event["output_index"].get<std::size_t>()]["id"]);
    }
  }
}

TEST(ResponseStore, TheOneUsedLongestAgoGoesFirst) {
  ResponseStore store(3000);
  const auto put = [&](const std::string& id) {
    store.Put({.response = {{"id", id}, {"output", Json::array({std::string(900, 'x')})}}});
  };
  put("a");
  put("b");
  put("c");
  EXPECT_TRUE(store.Conversation("a", ""));  // used: "b" is the oldest now
  put("d");
  EXPECT_TRUE(store.Get("a", ""));
  EXPECT_FALSE(store.Get("b", ""));
  EXPECT_TRUE(store.Get("d", ""));
}

}  // namespace
}  // namespace api
