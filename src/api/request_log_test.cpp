#include "api/request_log.h"

#include <gtest/gtest.h>

#include <string>

#include "api/cache_admin.h"
#include "api/openai_chat.h"
#include "api/openai_completions.h"
#include "api/testing_served_model.h"

namespace api {
namespace {

// Some 350 tokens that no other name gives.
std::string Text(const std::string& name) {
  std::string text;
  for (int i = 0; i < 50; ++i) {
    text += "The " + name + " shelf holds nine jars. ";
  }
  return text;
}

Json Message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

Json Tool(const std::string& name) {
  return {{"type", "function"},
          {"function",
           {{"name", name}, {"description", Text("tool")}, {"parameters", {{"type", "object"}}}}}};
}

// The latest entry of the log after a chat request.
Json Ask(ScriptedModel& models, const Json& body) {
  RecordedReply reply;
  Call(&ChatCompletions, models, body.dump(), reply);
  EXPECT_EQ(reply.status, 200) << body.dump();
  RecordedReply log;
  Call(&ListRequests, models, "", log);
  return log.body["data"][0];
}

TEST(RequestLog, AFirstRequestSaysSo) {
  ScriptedModel models;
  const Json line = Ask(models, {{"messages", {Message("user", Text("oak"))}}});
  EXPECT_EQ(line["model"], "org/model");
  EXPECT_EQ(line["from_memory"], 0);
  EXPECT_EQ(line["computed"], line["prompt_tokens"]);
  EXPECT_EQ(line["divergence"]["cause"], "the first request");
}

TEST(RequestLog, WhatGrowsIsNoMiss) {
  ScriptedModel models;
  Json body = {{"messages", {Message("user", Text("oak"))}}};
  (void)Ask(models, body);
  body["messages"].push_back(Message("assistant", "Good day."));
  body["messages"].push_back(Message("user", "And?"));
  const Json line = Ask(models, body);
  EXPECT_GT(line["from_memory"], 300);
  EXPECT_TRUE(line["divergence"].is_null() || line["computed"] < 64 + 20) << line.dump();
}

TEST(RequestLog, AnotherSystemTextIsFoundInItsPlace) {
  ScriptedModel models;
  const auto body = [](const std::string& date) {
    return Json{{"messages",
                 {Message("system", Text("oak") + "Today is " + date + ". " + Text("elm")),
                  Message("user", "Hello")}}};
  };
  (void)Ask(models, body("Monday"));
  const Json line = Ask(models, body("Friday"));
  const Json divergence = line["divergence"];
  EXPECT_EQ(divergence["cause"], "system text changed");
  EXPECT_EQ(divergence["message"], 0);
  EXPECT_EQ(divergence["role"], "system");
  EXPECT_NE(divergence["was"].get<std::string>().find("Monday"), std::string::npos);
  EXPECT_NE(divergence["now"].get<std::string>().find("Friday"), std::string::npos);
  EXPECT_GE(divergence["token"], line["from_memory"]);
  EXPECT_LT(divergence["token"], line["from_memory"].get<int>() + 64);
}

TEST(RequestLog, AnotherToolListIsFound) {
  ScriptedModel models;
  Json body = {{"messages", {Message("user", "Hello")}}, {"tools", {Tool("one"), Tool("two")}}};
  (void)Ask(models, body);
  body["tools"] = {Tool("one"), Tool("three")};
  EXPECT_EQ(Ask(models, body)["divergence"]["cause"], "tool list changed");
}

TEST(RequestLog, EditedDroppedAndReplacedMessagesAreToldApart) {
  ScriptedModel models;
  const Json first = Message("user", Text("oak"));
  const Json answer = Message("assistant", Text("elm"));
  (void)Ask(models, {{"messages", {first, answer, Message("user", Text("ash"))}}});
  const Json edited = Ask(models, {{"messages", {first, answer, Message("user", Text("fir"))}}});
  EXPECT_EQ(edited["divergence"]["cause"], "the last message changed");
  EXPECT_EQ(edited["divergence"]["message"], 2);
  const Json earlier =
      Ask(models,
          {{"messages", {first, Message("assistant", Text("yew")), Message("user", Text("ash"))}}});
  EXPECT_EQ(earlier["divergence"]["cause"], "an earlier message changed");
  EXPECT_EQ(earlier["divergence"]["role"], "assistant");
  const Json replaced = Ask(models, {{"messages", {first, Message("user", Text("box"))}}});
  EXPECT_EQ(replaced["divergence"]["cause"], "messages were dropped, added or replaced");
}

TEST(RequestLog, ReasoningThatDoesNotComeBackIsNamed) {
  PlayOptions options;
  options.pieces = {"<think>", Text("oak"), "</think>", "Good day."};
  ScriptedModel models(options);
  models.model.parser_format = parsers::FindFormat("hermes");
  (void)Ask(models, {{"messages", {Message("user", Text("ash"))}}});
  const Json line = Ask(models, {{"messages",
                                  {Message("user", Text("ash")), Message("assistant", "Good day."),
                                   Message("user", Text("elm"))}}});
  EXPECT_EQ(line["divergence"]["cause"], "earlier reasoning dropped") << line.dump();
  EXPECT_EQ(line["divergence"]["role"], "assistant");
}

TEST(RequestLog, TheLastTokenOfAReplyIsNotTakenForComputed) {
  ScriptedModel models;
  std::vector<TokenId> reply = models.Encode({"Good", " day", "."});
  reply.push_back(models.model.eos_ids.front());
  const auto ask = [&](const std::vector<TokenId>& prompt) {
    RecordedReply answer;
    Call(&Completions, models, Json({{"prompt", prompt}}).dump(), answer);
    EXPECT_EQ(answer.status, 200);
    RecordedReply log;
    Call(&ListRequests, models, "", log);
    return log.body["data"][0];
  };
  std::vector<TokenId> tokens(128 - reply.size(), 5);  // two blocks with the reply
  (void)ask(tokens);
  tokens.insert(tokens.end(), reply.begin(), reply.end());
  tokens.insert(tokens.end(), 20, 6);
  const Json line = ask(tokens);
  EXPECT_EQ(line["from_memory"], 64);
  EXPECT_TRUE(line["divergence"].is_null()) << line.dump();
}

TEST(RequestLog, WhatIsNoLongerInTheBankIsNotTheClientsFault) {
  ScriptedModel models;
  const Json body = {{"messages", {Message("user", Text("oak"))}}};
  (void)Ask(models, body);
  RecordedReply cleared;
  Call(&ClearCache, models, "{}", cleared);
  EXPECT_EQ(Ask(models, body)["divergence"]["cause"],
            "what was computed before is not in the bank any more");
}

TEST(RequestLog, PlainTextsAndManyPromptsAreLoggedToo) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&Completions, models, Json{{"prompt", {Text("oak"), Text("elm")}}, {"n", 2}}.dump(), reply);
  ASSERT_EQ(reply.status, 200);
  RecordedReply second;
  Call(&Completions, models, Json{{"prompt", Text("oak") + Text("ash")}}.dump(), second);
  RecordedReply log;
  Call(&ListRequests, models, "", log);
  ASSERT_EQ(log.body["data"].size(), 3U);
  EXPECT_EQ(log.body["data"][0]["divergence"]["cause"], "the text changed");
  EXPECT_TRUE(log.body["data"][0]["divergence"]["message"].is_null());
}

TEST(RequestLog, OneTenantSeesNothingOfAnother) {
  ScriptedModel models;
  const Json body = {{"messages", {Message("user", Text("oak"))}}};
  const auto ask = [&](const std::string& tenant) {
    RecordedReply reply;
    ApiRequest request;
    request.path = "/v1/chat/completions";
    request.body = body.dump();
    request.tenant = tenant;
    ChatCompletions(models, request, reply);
    RecordedReply log;
    request.body.clear();
    ListRequests(models, request, log);
    return log.body["data"];
  };
  EXPECT_EQ(ask("aa").size(), 1U);
  const Json other = ask("bb");
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0]["from_memory"], 0);
  EXPECT_EQ(other[0]["divergence"]["cause"], "the first request");
}

}  // namespace
}  // namespace api
