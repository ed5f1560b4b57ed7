#include "api/anthropic_messages.h"

#include <gtest/gtest.h>

#include "api/testing_served_model.h"

namespace api {
namespace {

void Post(ModelManager& models, const Json& body, RecordedReply& reply) {
  ApiRequest request;
  request.method = "POST";
  request.path = "/v1/messages";
  request.body = DumpJson(body);
  AnthropicMessages(models, request, reply);
}

Json Hello(const Json& more = Json::object()) {
  Json body = {{"model", "model"},
               {"max_tokens", 32},
               {"messages", Json::array({{{"role", "user"}, {"content", "hi"}}})}};
  body.update(more);
  return body;
}

std::vector<std::string> EventTypes(const RecordedReply& reply) {
  std::vector<std::string> types;
  for (const Json& chunk : reply.chunks) {
    types.push_back(chunk["type"].get<std::string>());
  }
  return types;
}

TEST(AnthropicMessages, AWholeAnswerHasBlocksStopReasonAndUsage) {
  ScriptedModel models;
  RecordedReply reply;
  Post(models, Hello(), reply);
  ASSERT_EQ(reply.status, 200) << reply.error.value_or(Error{}).message;
  EXPECT_EQ(reply.body["type"], "message");
  EXPECT_EQ(reply.body["role"], "assistant");
  EXPECT_EQ(reply.body["content"], Json::array({{{"type", "text"}, {"text", "Good day."}}}));
  EXPECT_EQ(reply.body["stop_reason"], "end_turn");
  EXPECT_TRUE(reply.body["stop_sequence"].is_null());
  EXPECT_GT(reply.body["usage"]["input_tokens"], 0);
  EXPECT_GT(reply.body["usage"]["output_tokens"], 0);
  EXPECT_EQ(reply.body["usage"]["cache_read_input_tokens"], 0);
}

TEST(AnthropicMessages, AStreamHasEveryEventInOrder) {
  ScriptedModel models;
  RecordedReply reply;
  Post(models, Hello({{"stream", true}}), reply);
  ASSERT_TRUE(reply.ended);
  std::vector<std::string> types = EventTypes(reply);
  types.erase(std::unique(types.begin(), types.end()), types.end());
  EXPECT_EQ(types,
            (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                      "content_block_stop", "message_delta", "message_stop"}));
  const Json& start = reply.chunks.front()["message"];
  EXPECT_GT(start["usage"]["input_tokens"], 0);
  EXPECT_EQ(start["content"], Json::array());
  EXPECT_TRUE(start["stop_reason"].is_null());
  std::string text;
  for (const Json& chunk : reply.chunks) {
    if (chunk["type"] == "content_block_delta") {
      EXPECT_EQ(chunk["index"], 0);
      text += chunk["delta"]["text"].get<std::string>();
    }
  }
  EXPECT_EQ(text, "Good day.");
  const Json& last = reply.chunks[reply.chunks.size() - 2];
  EXPECT_EQ(last["delta"]["stop_reason"], "end_turn");
  EXPECT_GT(last["usage"]["output_tokens"], 0);
}

TEST(AnthropicMessages, PingsComeWhileTheModelPrefills) {
  ScriptedModel models({.prefill_delay_s = 1.3});
  RecordedReply reply;
  Post(models, Hello({{"stream", true}}), reply);
  EXPECT_EQ(reply.chunks.front()["type"], "ping");
  EXPECT_EQ(reply.chunks.back()["type"], "message_stop");
}

TEST(AnthropicMessages, TheStopSequenceThatEndedItIsNamed) {
  ScriptedModel models({.pieces = {"alpha", " be", "ta", " gamma"}});
  RecordedReply reply;
  Post(models, Hello({{"stop_sequences", {"zzz", "beta"}}}), reply);
  EXPECT_EQ(reply.body["content"][0]["text"], "alpha ");
  EXPECT_EQ(reply.body["stop_reason"], "stop_sequence");
  EXPECT_EQ(reply.body["stop_sequence"], "beta");
}

TEST(AnthropicMessages, MaxTokensIsTheReasonWhenItCuts) {
  ScriptedModel models;
  RecordedReply reply;
  Post(models, Hello({{"max_tokens", 1}}), reply);
  EXPECT_EQ(reply.body["stop_reason"], "max_tokens");
  EXPECT_EQ(reply.body["usage"]["output_tokens"], 1);
}

TEST(AnthropicMessages, TheCountIsTheInputOfTheSameRequest) {
  ScriptedModel models;
  const Json body = Hello({{"system", "You are brief."},
                           {"tools", Json::array({{{"name", "set_timer"},
                                                   {"description", "d"},
                                                   {"input_schema", {{"type", "object"}}}}})}});
  RecordedReply reply;
  Post(models, body, reply);
  RecordedReply count;
  ApiRequest request;
  request.path = "/v1/messages/count_tokens";
  request.body = DumpJson(body);
  AnthropicCountTokens(models, request, count);
  EXPECT_EQ(count.body["input_tokens"], reply.body["usage"]["input_tokens"]);
}

TEST(AnthropicMessages, UsageSplitsTheInputWhereMarksAsk) {
  ScriptedModel models;
  models.model.bank_block_tokens = 64;
  const std::string words(4000, 'a');
  const Json system = Json::array(
      {{{"type", "text"}, {"text", words}, {"cache_control", {{"type", "ephemeral"}}}}});
  RecordedReply first;
  Post(models, Hello({{"system", system}}), first);
  RecordedReply second;
  Post(models, Hello({{"system", system}}), second);
  const Json& wrote = first.body["usage"];
  const Json& read = second.body["usage"];
  EXPECT_EQ(wrote["cache_creation_input_tokens"], read["cache_read_input_tokens"]);
  EXPECT_GT(read["cache_read_input_tokens"], 0);
  EXPECT_EQ(wrote["input_tokens"], read["input_tokens"]);
  EXPECT_EQ(read["cache_creation_input_tokens"], 0);
}

TEST(AnthropicMessages, APromptOverTheContextIsWordedAsAnthropicDoes) {
  ScriptedModel models({.context_length = 64});
  RecordedReply reply;
  Post(models, Hello({{"system", std::string(3000, 'x')}}), reply);
  ASSERT_TRUE(reply.error);
  EXPECT_TRUE(reply.error->message.starts_with("prompt is too long: ")) << reply.error->message;
  EXPECT_TRUE(reply.error->message.ends_with(" tokens > 64 maximum")) << reply.error->message;
  RecordedReply huge;  // not even counted
  Post(models, Hello({{"system", std::string(5'000'000, 'x')}}), huge);
  ASSERT_TRUE(huge.error);
  EXPECT_TRUE(huge.error->message.starts_with("prompt is too long: ")) << huge.error->message;
}

TEST(AnthropicMessages, ALateFailureIsAnErrorEvent) {
  ScriptedModel models({.fails_at_end = true});
  RecordedReply reply;
  Post(models, Hello({{"stream", true}}), reply);
  EXPECT_EQ(reply.chunks.back()["type"], "error");
}

TEST(AnthropicMessages, BadFieldsAreRefusedByName) {
  ScriptedModel models;
  const Json message = {{"role", "user"}, {"content", "hi"}};
  for (const auto& [fields, param] : std::vector<std::pair<Json, std::string>>{
           {{{"messages", Json::array()}}, "messages"},
           {{{"messages", nullptr}}, "messages"},
           {{{"messages", Json::array({5})}}, "messages[0]"},
           {{{"messages", Json::array({{{"role", 5}, {"content", "x"}}})}}, "messages[0].role"},
           {{{"messages", Json::array({{{"role", "user"}, {"content", 5}}})}},
            "messages[0].content"},
           {{{"messages",
              Json::array({{{"role", "user"},
                            {"content",
                             Json::array({{{"type", "image"}, {"source", Json::object()}}})}}})}},
            "messages[0].content[0].type"},
           {{{"system", 5}}, "system"},
           {{{"max_tokens", 0}}, "max_tokens"},
           {{{"stop_sequences", {"a", 5}}}, "stop_sequences[1]"},
           {{{"tools", Json::array({{{"description", "x"}, {"input_schema", Json::object()}}})}},
            "tools[0].name"},
           {{{"tool_choice", {{"type", "sometimes"}}}}, "tool_choice.type"},
       }) {
    RecordedReply reply;
    Post(models, Hello(fields), reply);
    ASSERT_TRUE(reply.error) << DumpJson(fields);
    EXPECT_EQ(reply.error->param, param) << reply.error->message;
  }
}

}  // namespace
}  // namespace api
