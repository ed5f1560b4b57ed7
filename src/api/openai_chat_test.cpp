#include "api/openai_chat.h"

#include <gtest/gtest.h>

#include <thread>

#include "api/testing_served_model.h"

namespace api {
namespace {

// A request body with one user message and `more` fields.
std::string Body(const std::string& more = "") {
  return R"({"messages": [{"role": "user", "content": "hi"}])" + (more.empty() ? "" : ", " + more) +
         "}";
}

const Json& FirstChoice(const RecordedReply& reply) { return reply.body["choices"][0]; }

TEST(ChatCompletions, AWholeAnswerHasTextUsageAndTimings) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ChatCompletions, models, Body(R"("model": "model")"), reply);
  ASSERT_EQ(reply.status, 200) << reply.error.value_or(Error{}).message;
  EXPECT_EQ(FirstChoice(reply)["message"]["content"], "Good day.");
  EXPECT_EQ(FirstChoice(reply)["message"]["role"], "assistant");
  EXPECT_EQ(FirstChoice(reply)["finish_reason"], "stop");
  EXPECT_EQ(reply.body["object"], "chat.completion");
  EXPECT_EQ(reply.body["model"], "org/model");
  const Json& usage = reply.body["usage"];
  EXPECT_GT(usage["prompt_tokens"], 0);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);
  const int n = static_cast<int>(models.Encode({"Good", " day", "."}).size()) + 1;
  EXPECT_EQ(usage["completion_tokens"], n) << "the end token counts";
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + n);
  EXPECT_EQ(reply.body["timings"]["predicted_n"], n);
  EXPECT_EQ(reply.body["timings"]["prompt_n"], usage["prompt_tokens"]);
}

TEST(ChatCompletions, AStreamHasTheRoleFirstAndOneClosingChunk) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ChatCompletions, models, Body(R"("stream": true)"), reply);
  ASSERT_TRUE(reply.ended && reply.done);
  EXPECT_EQ(reply.chunks.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(reply.chunks.front()["object"], "chat.completion.chunk");
  EXPECT_EQ(reply.Text(), "Good day.");
  EXPECT_EQ(reply.FinishReasons(), std::vector<std::string>{"stop"});
  EXPECT_TRUE(reply.chunks.back()["timings"].is_object());
  for (const Json& chunk : reply.chunks) {
    EXPECT_FALSE(chunk.contains("usage"));
    EXPECT_TRUE(chunk["choices"][0].contains("finish_reason"));
    EXPECT_EQ(chunk["id"], reply.chunks.front()["id"]);
  }
}

TEST(ChatCompletions, UsageComesInAChunkOfItsOwnWhenAskedFor) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ChatCompletions, models,
       Body(R"("stream": true, "stream_options": {"include_usage": true})"), reply);
  ASSERT_TRUE(reply.done);
  EXPECT_EQ(reply.chunks.back()["choices"], Json::array());
  EXPECT_GT(reply.chunks.back()["usage"]["total_tokens"], 0);
  EXPECT_TRUE(reply.chunks.front()["usage"].is_null());
}

TEST(ChatCompletions, ARepeatedPromptIsReportedAsCached) {
  ScriptedModel models;
  const std::string words(4000, 'a');
  const std::string body =
      R"({"messages": [{"role": "user", "content": ")" + words + R"("}], "max_tokens": 2})";
  RecordedReply first;
  Call(&ChatCompletions, models, body, first);
  RecordedReply second;
  Call(&ChatCompletions, models, body, second);
  ASSERT_EQ(second.status, 200);
  const int prompt = second.body["usage"]["prompt_tokens"];
  const int cached = second.body["usage"]["prompt_tokens_details"]["cached_tokens"];
  EXPECT_GE(cached, prompt - 64);
  EXPECT_LT(cached, prompt);
  EXPECT_EQ(second.body["timings"]["cache_n"], cached);
}

TEST(ChatCompletions, AStopStringEndsTheTextWhateverTheTokenBorders) {
  ScriptedModel models({.pieces = {"alpha", " be", "ta", " gam", "ma", " delta"}});
  for (const char* stop : {R"("beta gamma")", R"(["zzz", "beta gamma"])"}) {
    RecordedReply whole;
    Call(&ChatCompletions, models, Body(R"("stop": )" + std::string(stop)), whole);
    EXPECT_EQ(FirstChoice(whole)["message"]["content"], "alpha ");
    EXPECT_EQ(FirstChoice(whole)["finish_reason"], "stop");
    RecordedReply stream;
    Call(&ChatCompletions, models, Body(R"("stream": true, "stop": )" + std::string(stop)), stream);
    EXPECT_EQ(stream.Text(), "alpha ");
    EXPECT_EQ(stream.FinishReasons(), std::vector<std::string>{"stop"});
  }
}

TEST(ChatCompletions, ACharacterIsNeverSplitOverChunks) {
  // Byte-level tokens: an emoji and CJK become several tokens with this small vocabulary.
  const std::string text = "na\xc3\xafve \xf0\x9f\x8c\x8d \xe7\x8c\xab";
  ScriptedModel models({.pieces = {text}});
  RecordedReply reply;
  Call(&ChatCompletions, models, Body(R"("stream": true)"), reply);
  EXPECT_EQ(reply.Text(), text);
}

TEST(ChatCompletions, MaxTokensEndsWithLength) {
  ScriptedModel models;
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    RecordedReply reply;
    Call(&ChatCompletions, models, Body("\"" + std::string(field) + "\": 1"), reply);
    EXPECT_EQ(FirstChoice(reply)["finish_reason"], "length");
    EXPECT_EQ(reply.body["usage"]["completion_tokens"], 1);
  }
}

TEST(ChatCompletions, AHugeMaxTokensIsClamped) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ChatCompletions, models, Body(R"("max_tokens": 100000000000)"), reply);
  EXPECT_EQ(FirstChoice(reply)["finish_reason"], "stop");
}

TEST(ChatCompletions, LogprobsHaveOneEntryAToken) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ChatCompletions, models, Body(R"("logprobs": true, "top_logprobs": 3)"), reply);
  const Json& content = FirstChoice(reply)["logprobs"]["content"];
  EXPECT_EQ(content.size(), reply.body["usage"]["completion_tokens"].get<std::size_t>());
  EXPECT_EQ(content[0]["top_logprobs"].size(), 3U);
  EXPECT_LE(content[0]["logprob"].get<double>(), 0);
  EXPECT_FALSE(content[0]["bytes"].empty());
  RecordedReply stream;
  Call(&ChatCompletions, models, Body(R"("logprobs": true, "stream": true)"), stream);
  std::size_t entries = 0;
  for (const Json& chunk : stream.chunks) {
    if (const Json& logprobs = chunk["choices"][0]["logprobs"]; logprobs.is_object()) {
      entries += logprobs["content"].size();
    }
  }
  EXPECT_EQ(entries, content.size());
}

TEST(ChatCompletions, SeveralChoicesHaveTheirIndex) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ChatCompletions, models, Body(R"("n": 3)"), reply);
  ASSERT_EQ(reply.body["choices"].size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reply.body["choices"][i]["index"], i);
    EXPECT_EQ(reply.body["choices"][i]["message"]["content"], "Good day.");
  }
  RecordedReply stream;
  Call(&ChatCompletions, models, Body(R"("n": 2, "stream": true)"), stream);
  EXPECT_EQ(stream.Text(0), "Good day.");
  EXPECT_EQ(stream.Text(1), "Good day.");
  EXPECT_EQ(stream.FinishReasons().size(), 2U);
}

TEST(ChatCompletions, ALateFailureIsAnErrorEventAndNoCleanEnd) {
  ScriptedModel models({.fails_at_end = true});
  RecordedReply stream;
  Call(&ChatCompletions, models, Body(R"("stream": true)"), stream);
  EXPECT_TRUE(stream.ended);
  EXPECT_FALSE(stream.done);
  EXPECT_TRUE(stream.chunks.back().contains("error"));
  EXPECT_TRUE(stream.FinishReasons().empty());
  RecordedReply whole;
  Call(&ChatCompletions, models, Body(), whole);
  EXPECT_EQ(whole.error->code, ErrorCode::kInternal);
}

TEST(ChatCompletions, APromptOverTheContextIsToldWithBothNumbersBeforeTheStream) {
  ScriptedModel models({.context_length = 64});
  const std::string text(2000, 'x');
  RecordedReply reply;
  Call(&ChatCompletions, models,
       R"({"stream": true, "messages": [{"role": "user", "content": ")" + text + R"("}]})", reply);
  EXPECT_FALSE(reply.begun);
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->code, ErrorCode::kContextLengthExceeded);
  EXPECT_TRUE(reply.error->message.starts_with(
      "This model's maximum context length is 64 tokens. However, your messages resulted in "))
      << reply.error->message;
}

TEST(ChatCompletions, KeepAlivesComeWhileTheModelPrefills) {
  ScriptedModel models({.prefill_delay_s = 1.3});
  RecordedReply reply;
  Call(&ChatCompletions, models, Body(R"("stream": true)"), reply);
  EXPECT_GE(reply.keep_alives, 1);
  EXPECT_EQ(reply.Text(), "Good day.");
}

TEST(ChatCompletions, AClientThatLeftEndsItsGeneration) {
  ScriptedModel models({.pieces = std::vector<std::string>(3000, " a")});
  RecordedReply reply;
  reply.on_event = [&reply] { reply.gone = reply.chunks.size() >= 5; };
  Call(&ChatCompletions, models, Body(R"("stream": true)"), reply);
  EXPECT_LT(reply.chunks.size(), 1000U);
  EXPECT_TRUE(reply.usage) << "what was used is still reported";
  for (int i = 0; i < 1000 && models.model.scheduler->stats().running > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(models.model.scheduler->stats().running, 0);
}

TEST(ChatCompletions, ExplicitNullsAreAbsent) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ChatCompletions, models,
       Body(R"("model": null, "stop": null, "seed": null, "tools": null, "tool_choice": null,
               "response_format": null, "logprobs": null, "stream": null, "temperature": null,
               "max_tokens": null, "unknown_field": {"x": 1})"),
       reply);
  EXPECT_EQ(reply.status, 200);
}

TEST(ChatCompletions, JsonFormatsConstrainTheText) {
  ScriptedModel models;  // plays "Good day.", which no schema allows
  RecordedReply reply;
  Call(&ChatCompletions, models,
       Body(R"("temperature": 0, "max_tokens": 40, "response_format": {"type": "json_schema",
               "json_schema": {"schema": {"type": "object", "properties": {"a": {"enum": [1]}},
               "required": ["a"], "additionalProperties": false}}})"),
       reply);
  ASSERT_EQ(reply.status, 200) << reply.error.value_or(Error{}).message;
  EXPECT_EQ(FirstChoice(reply)["message"]["content"].get<std::string>().front(), '{');
}

struct Refused {
  const char* fields;
  const char* param;
};

TEST(ChatCompletions, BadFieldsAreRefusedByName) {
  ScriptedModel models;
  for (const Refused& refused : std::vector<Refused>{
           {R"("temperature": -1)", "temperature"},
           {R"("temperature": 5)", "temperature"},
           {R"("temperature": "hot")", "temperature"},
           {R"("top_p": 0)", "top_p"},
           {R"("top_p": 1.5)", "top_p"},
           {R"("top_k": -2)", "top_k"},
           {R"("min_p": 2)", "min_p"},
           {R"("max_tokens": 0)", "max_tokens"},
           {R"("max_tokens": -5)", "max_tokens"},
           {R"("presence_penalty": 10)", "presence_penalty"},
           {R"("repetition_penalty": 0)", "repetition_penalty"},
           {R"("n": 0)", "n"},
           {R"("n": 17)", "n"},
           {R"("logprobs": true, "top_logprobs": 99)", "top_logprobs"},
           {R"("top_logprobs": 2)", "top_logprobs"},
           {R"("stop": 5)", "stop"},
           {R"("stop": ["a", 5])", "stop[1]"},
           {R"("stop": [""])", "stop[0]"},
           {R"("logit_bias": {"x": 1})", "logit_bias"},
           {R"("logit_bias": {"999999": 1})", "logit_bias"},
           {R"("logit_bias": {"5": 101})", "logit_bias.5"},
           {R"("stream": "yes")", "stream"},
           {R"("stream_options": {"include_usage": 1})", "stream_options.include_usage"},
           {R"("response_format": {"type": "xml"})", "response_format.type"},
           {R"("response_format": {"type": "json_schema"})", "response_format.json_schema.schema"},
           {R"("tool_choice": "required")", "tool_choice"},
           {R"("tool_choice": "sometimes")", "tool_choice"},
           {R"("tools": [{"type": "function"}])", "tools[0].function"},
           {R"("tools": [{"type": "function", "function": {"name": "f"}}],
               "tool_choice": {"type": "function", "function": {"name": "nope"}})",
            "tool_choice"},
           {R"("model": 5)", "model"},
           {R"("model": "no-such-model")", "model"},
           {R"("continue_final_message": true)", "continue_final_message"},
       }) {
    RecordedReply reply;
    Call(&ChatCompletions, models, Body(refused.fields), reply);
    ASSERT_TRUE(reply.error) << refused.fields;
    EXPECT_EQ(reply.error->param, refused.param) << refused.fields << reply.error->message;
    EXPECT_TRUE(reply.error->message.ends_with(".")) << reply.error->message;
  }
}

TEST(ChatCompletions, NoCallIsDemandedOfAModelWhoseFormatHasNone) {
  ScriptedModel models;
  for (const char* choice :
       {R"("required")", R"({"type": "function", "function": {"name": "f"}})"}) {
    RecordedReply reply;
    Call(&ChatCompletions, models,
         Body(R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": )" +
              std::string(choice)),
         reply);
    ASSERT_TRUE(reply.error);
    EXPECT_EQ(reply.error->code, ErrorCode::kUnsupported);
  }
}

TEST(ChatCompletions, ToolChoiceNoneHidesTheTools) {
  ScriptedModel models;
  const auto prompt_tokens = [&](const std::string& more) {
    RecordedReply reply;
    Call(&ChatCompletions, models, Body(more), reply);
    return reply.body["usage"]["prompt_tokens"].get<int>();
  };
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "f", "description": "d"}}])";
  EXPECT_GT(prompt_tokens(tools), prompt_tokens(""));
  EXPECT_EQ(prompt_tokens(tools + R"(, "tool_choice": "none")"), prompt_tokens(""));
}

}  // namespace
}  // namespace api
