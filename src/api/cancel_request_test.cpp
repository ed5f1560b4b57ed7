#include "api/cancel_request.h"

#include <gtest/gtest.h>

#include <thread>

#include "api/openai_chat.h"
#include "api/testing_served_model.h"

namespace api {
namespace {

// The status of a cancellation by a tenant.
int Cancel(ScriptedModel& models, const std::string& id, const std::string& tenant = "t") {
  ApiRequest request;
  request.method = "POST";
  request.path = "/v1/requests/" + id + "/cancel";
  request.path_params["id"] = id;
  request.tenant = tenant;
  RecordedReply reply;
  CancelRequest(models, request, reply);
  return reply.error ? 404 : reply.status;
}

ApiRequest LongChat() {
  ApiRequest request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.body = R"({"messages": [{"role": "user", "content": "a"}], "stream": true})";
  request.request_id = "req-1";
  request.tenant = "t";
  return request;
}

// Long enough that no test sees its end.
PlayOptions Long() {
  PlayOptions options;
  options.pieces.assign(3000, " word");
  return options;
}

TEST(CancelRequest, EndsTheStreamByTheIdOfTheRequestOrOfTheAnswer) {
  for (const bool by_answer : {false, true}) {
    ScriptedModel models(Long());
    RecordedReply reply;
    std::size_t events = 0;
    reply.on_event = [&] {
      if (++events == 3) {
        const std::string id =
            by_answer ? reply.chunks.front()["id"].get<std::string>() : std::string("req-1");
        EXPECT_EQ(Cancel(models, id, "another"), 404) << "nothing crosses tenants";
        EXPECT_EQ(Cancel(models, id), 200);
      }
    };
    ChatCompletions(models, LongChat(), reply);
    EXPECT_TRUE(reply.ended);
    EXPECT_FALSE(reply.done);
    EXPECT_LT(reply.chunks.size(), 3000U);
    EXPECT_NE(reply.chunks.back()["error"]["message"].get<std::string>().find("cancelled"),
              std::string::npos);
    EXPECT_EQ(Cancel(models, "req-1"), 404) << "it is over";
  }
}

TEST(CancelRequest, ARequestThatStillPrefillsIsAnsweredWithAnError) {
  PlayOptions options;
  options.prefill_delay_s = 0.5;
  ScriptedModel models(options);
  RecordedReply reply;
  std::thread client([&] { ChatCompletions(models, LongChat(), reply); });
  while (Cancel(models, "req-1") != 200) {
    std::this_thread::yield();
  }
  client.join();
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->code, ErrorCode::kCancelled);
}

TEST(CancelRequest, AnUnknownIdIsNotFound) {
  ScriptedModel models;
  EXPECT_EQ(Cancel(models, "req-1"), 404);
  EXPECT_EQ(Cancel(models, ""), 404);
}

}  // namespace
}  // namespace api
