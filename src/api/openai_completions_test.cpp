#include "api/openai_completions.h"

#include <gtest/gtest.h>

#include "api/openai_models.h"
#include "api/testing_served_model.h"
#include "api/tokenize.h"

namespace api {
namespace {

TEST(Completions, APromptIsATextOrTokenIdsOrAListOfEither) {
  ScriptedModel models;
  for (const auto& [prompt, n] : std::vector<std::pair<std::string, std::size_t>>{
           {R"("Hello")", 1}, {R"(["a", "b"])", 2}, {"[1, 2, 3]", 1}, {"[[1, 2], [3]]", 2}}) {
    RecordedReply reply;
    Call(&Completions, models, R"({"n": 2, "prompt": )" + prompt + "}", reply);
    ASSERT_EQ(reply.status, 200) << prompt << reply.error.value_or(Error{}).message;
    ASSERT_EQ(reply.body["choices"].size(), 2 * n);
    for (std::size_t i = 0; i < 2 * n; ++i) {
      EXPECT_EQ(reply.body["choices"][i]["index"], i);
      EXPECT_EQ(reply.body["choices"][i]["text"], "Good day.");
      EXPECT_EQ(reply.body["choices"][i]["finish_reason"], "stop");
    }
  }
}

TEST(Completions, AStreamGivesTheSameTextAsTheWholeAnswer) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&Completions, models,
       R"({"stream": true, "prompt": ["a", "b"], "stream_options": {"include_usage": true}})",
       reply);
  ASSERT_TRUE(reply.done);
  EXPECT_EQ(reply.Text(0), "Good day.");
  EXPECT_EQ(reply.Text(1), "Good day.");
  EXPECT_EQ(reply.FinishReasons().size(), 2U);
  EXPECT_EQ(reply.chunks.back()["choices"], Json::array());
  EXPECT_GT(reply.chunks.back()["usage"]["total_tokens"], 0);
}

TEST(Completions, EchoPutsThePromptInFront) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&Completions, models, R"({"prompt": "Once, ", "echo": true})", reply);
  EXPECT_EQ(reply.body["choices"][0]["text"], "Once, Good day.");
  RecordedReply stream;
  Call(&Completions, models, R"({"prompt": "Once, ", "echo": true, "stream": true})", stream);
  EXPECT_EQ(stream.Text(), "Once, Good day.");
}

TEST(Completions, TokenIdsAreReturnedWhenAskedFor) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&Completions, models, R"({"prompt": [5, 6], "return_token_ids": true})", reply);
  const Json& choice = reply.body["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"], Json({5, 6}));
  std::vector<TokenId> expected = models.Encode({"Good", " day", "."});
  expected.push_back(models.model.eos_ids.front());
  EXPECT_EQ(choice["token_ids"], Json(expected));
}

TEST(Completions, IgnoreEosGoesOnToMaxTokens) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&Completions, models, R"({"prompt": "x", "ignore_eos": true, "max_tokens": 20})", reply);
  EXPECT_EQ(reply.body["usage"]["completion_tokens"], 20);
  EXPECT_EQ(reply.body["choices"][0]["finish_reason"], "length");
}

TEST(Completions, LogprobsAreInTheOldForm) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&Completions, models, R"({"prompt": "x", "logprobs": 2})", reply);
  const Json& logprobs = reply.body["choices"][0]["logprobs"];
  const std::size_t n = reply.body["usage"]["completion_tokens"];
  EXPECT_EQ(logprobs["tokens"].size(), n);
  EXPECT_EQ(logprobs["token_logprobs"].size(), n);
  EXPECT_EQ(logprobs["text_offset"].size(), n);
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  EXPECT_LE(logprobs["top_logprobs"][0].size(), 2U);
}

TEST(Completions, WhatCannotBeDoneIsRefusedByName) {
  ScriptedModel models;
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "prompt"},
           {R"({"prompt": ""})", "prompt"},
           {R"({"prompt": []})", "prompt"},
           {R"({"prompt": 5})", "prompt"},
           {R"({"prompt": [1, -2]})", "prompt[1]"},
           {R"({"prompt": [1, 999999]})", "prompt[1]"},
           {R"({"prompt": ["a", 5]})", "prompt[1]"},
           {R"({"prompt": "x", "suffix": "y"})", "suffix"},
           {R"({"prompt": "x", "best_of": 2})", "best_of"},
           {R"({"prompt": "x", "echo": true, "logprobs": 1})", "echo"},
           {R"({"prompt": "x", "logprobs": true})", "logprobs"},
       }) {
    RecordedReply reply;
    Call(&Completions, models, body, reply);
    ASSERT_TRUE(reply.error) << body;
    EXPECT_EQ(reply.error->param, param) << body << reply.error->message;
  }
}

TEST(Completions, AFullQueueIsOverloaded) {
  ScriptedModel models({.max_queue = 1, .max_num_seqs = 1});
  RecordedReply reply;
  Call(&Completions, models, R"({"prompt": ["a", "b", "c", "d"], "stream": true})", reply);
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->code, ErrorCode::kOverloaded);
}

TEST(Models, AreListedWithTheContextReallyLoaded) {
  ScriptedModel models({.context_length = 1234});
  RecordedReply list;
  Call(&ListModels, models, "", list);
  ASSERT_EQ(list.body["data"].size(), 1U);
  EXPECT_EQ(list.body["data"][0]["id"], "org/model");
  EXPECT_EQ(list.body["data"][0]["max_model_len"], 1234);
  ApiRequest request;
  request.path_params["id"] = "org/model";
  RecordedReply one;
  GetModel(models, request, one);
  EXPECT_EQ(one.body["id"], "org/model");
  request.path_params["id"] = "other";
  RecordedReply none;
  GetModel(models, request, none);
  EXPECT_EQ(none.error->code, ErrorCode::kModelNotFound);
}

TEST(Tokenize, MoreThanAnyContextIsRefusedWithItsSize) {
  ScriptedModel models({.context_length = 64});
  RecordedReply text;
  Call(&Tokenize, models, R"({"prompt": ")" + std::string(5'000'000, 'x') + R"("})", text);
  ASSERT_TRUE(text.error);
  EXPECT_EQ(text.error->code, ErrorCode::kContextLengthExceeded);
  EXPECT_NE(text.error->message.find("64 tokens"), std::string::npos) << text.error->message;
  std::string ids = "1";
  for (int i = 0; i < 1'000'000; ++i) {
    ids += ",1";
  }
  RecordedReply tokens;
  Call(&Detokenize, models, R"({"tokens": [)" + ids + "]}", tokens);
  ASSERT_TRUE(tokens.error);
  EXPECT_EQ(tokens.error->param, "tokens");
  EXPECT_NE(tokens.error->message.find("1000001"), std::string::npos) << tokens.error->message;
}

TEST(Tokenize, AndBackGiveTheText) {
  ScriptedModel models;
  for (const char* field : {"prompt", "content"}) {
    RecordedReply tokens;
    Call(&Tokenize, models, R"({")" + std::string(field) + R"(": "Hello there <|im_end|>"})",
         tokens);
    ASSERT_EQ(tokens.status, 200);
    EXPECT_EQ(tokens.body["count"], tokens.body["tokens"].size());
    EXPECT_EQ(tokens.body["tokens"].back(), models.model.eos_ids.front());
    RecordedReply text;
    Call(&Detokenize, models, DumpJson({{"tokens", tokens.body["tokens"]}}), text);
    EXPECT_EQ(text.body["content"], "Hello there <|im_end|>");
    EXPECT_EQ(text.body["prompt"], text.body["content"]);
  }
}

TEST(Tokenize, PiecesAndMessagesCanBeAskedFor) {
  ScriptedModel models;
  RecordedReply pieces;
  Call(&Tokenize, models, R"({"content": "ab", "with_pieces": true})", pieces);
  std::string joined;
  for (const Json& token : pieces.body["tokens"]) {
    joined += token["piece"].get<std::string>();
  }
  EXPECT_EQ(joined, "ab");
  RecordedReply messages;
  Call(&Tokenize, models, R"({"messages": [{"role": "user", "content": "ab"}]})", messages);
  EXPECT_GT(messages.body["count"], pieces.body["count"]);
  RecordedReply nothing;
  Call(&Tokenize, models, "{}", nothing);
  EXPECT_EQ(nothing.error->param, "prompt");
  RecordedReply bad;
  Call(&Detokenize, models, R"({"tokens": [1, "x"]})", bad);
  EXPECT_EQ(bad.error->param, "tokens[1]");
}

}  // namespace
}  // namespace api
