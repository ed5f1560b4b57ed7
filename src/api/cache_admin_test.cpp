#include "api/cache_admin.h"

#include <gtest/gtest.h>

#include "api/openai_chat.h"
#include "api/testing_served_model.h"

namespace api {
namespace {

// Longer than a block of 64 tokens.
std::string ChatBody(const std::string& more = "") {
  std::string text;
  for (int i = 0; i < 50; ++i) {
    text += "The shelf holds nine jars. ";
  }
  return Json{{"messages", {{{"role", "user"}, {"content", text + more}}}}}.dump();
}

std::int64_t Cached(const RecordedReply& reply) {
  return reply.body.at("usage").at("prompt_tokens_details").at("cached_tokens");
}

TEST(CacheAdmin, APrefilledChatIsFoundByTheNextRequest) {
  ScriptedModel models;
  RecordedReply warm;
  Call(&PrefillCache, models, ChatBody(), warm);
  ASSERT_EQ(warm.status, 200);
  const std::int64_t prompt = warm.body["prompt_tokens"];
  EXPECT_GT(prompt, 300);
  EXPECT_EQ(warm.body["prompt_tokens_details"]["cached_tokens"], 0);
  RecordedReply chat;
  Call(&ChatCompletions, models, ChatBody(), chat);
  EXPECT_EQ(chat.body["usage"]["prompt_tokens"], prompt);
  EXPECT_EQ(Cached(chat), (prompt - 1) / 64 * 64);
  EXPECT_EQ(chat.body["usage"]["prompt_tokens_details"]["cached_tokens_memory"], Cached(chat));
  EXPECT_EQ(chat.body["usage"]["prompt_tokens_details"]["cached_tokens_disk"], 0);
}

TEST(CacheAdmin, AClearedBankFindsNothing) {
  ScriptedModel models;
  RecordedReply first;
  Call(&ChatCompletions, models, ChatBody(), first);
  RecordedReply cleared;
  Call(&ClearCache, models, R"({"tier": "memory", "model": "model"})", cleared);
  ASSERT_EQ(cleared.status, 200);
  EXPECT_EQ(cleared.body["cleared"], Json({"org/model"}));
  RecordedReply again;
  Call(&ChatCompletions, models, ChatBody(), again);
  EXPECT_EQ(Cached(again), 0);
}

TEST(CacheAdmin, StatsAddUp) {
  ScriptedModel models;
  for (const char* more : {"", "", "x"}) {
    RecordedReply reply;
    Call(&ChatCompletions, models, ChatBody(more), reply);
  }
  RecordedReply stats;
  Call(&CacheStats, models, "", stats);
  const Json& model = stats.body["models"][0];
  const Json& tokens = model["prompt_tokens"];
  EXPECT_GT(tokens["from_memory"], 600);
  EXPECT_EQ(tokens["total"].get<int>(), tokens["from_memory"].get<int>() +
                                            tokens["from_disk"].get<int>() +
                                            tokens["computed"].get<int>());
  EXPECT_GT(model["memory"]["blocks"], 0);
  EXPECT_TRUE(model["disk"].is_null()) << "there is no disk tier here";
}

TEST(CacheAdmin, WhatCannotBeIsRefusedWithTheField) {
  ScriptedModel models;
  RecordedReply reply;
  Call(&ClearCache, models, R"({"tier": "tape"})", reply);
  EXPECT_EQ(reply.error.value_or(Error{}).param, "tier");
  RecordedReply unknown;
  Call(&ClearCache, models, R"({"model": "nobody"})", unknown);
  EXPECT_EQ(unknown.error.value_or(Error{}).code, ErrorCode::kModelNotFound);
  RecordedReply empty;
  Call(&PrefillCache, models, "{}", empty);
  EXPECT_EQ(empty.error.value_or(Error{}).param, "messages");
}

}  // namespace
}  // namespace api
