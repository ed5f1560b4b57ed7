#include "http/api_handler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "api/testing_served_model.h"
#include "http/routes.h"
#include "http/test_client.h"

namespace http {
namespace {

// The whole way: socket, handler, scripted model.
class ApiServer : public testing::Test {
 protected:
  void Start(ApiHandlerOptions options = {}, const api::PlayOptions& play = {}) {
    server.reset();  // before the handler it uses
    models = std::make_unique<api::ScriptedModel>(play);
    handler = std::make_unique<ApiHandler>(std::move(options), *models);
    server = Server::Start({.port = 0}, *handler).value();
  }

  struct Answer {
    int status = 0;
    std::string head;
    std::string body;
    [[nodiscard]] Json json() const { return ParseJson(body).value_or(Json()); }
  };

  static Answer Split(const std::string& text) {
    Answer answer;
    const std::size_t end = text.find("\r\n\r\n");
    answer.head = text.substr(0, end);
    answer.body = end == std::string::npos ? "" : text.substr(end + 4);
    answer.status = text.size() > 12 ? std::stoi(text.substr(9, 3)) : 0;
    return answer;
  }

  Answer Ask(std::string_view method, std::string_view path, std::string_view headers = "",
             std::string_view body = "") {
    TestClient client(server->port());
    client.Send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}",
                            method, path, headers, body.size(), body));
    return Split(method == "HEAD" ? client.ReadUntil("\r\n\r\n") : client.ReadAnswer());
  }

  std::unique_ptr<api::ScriptedModel> models;
  std::unique_ptr<ApiHandler> handler;
  std::unique_ptr<Server> server;
};

constexpr std::string_view kChat = R"({"messages": [{"role": "user", "content": "hi"}]})";

TEST_F(ApiServer, EveryRouteAnswers) {
  Start();
  EXPECT_EQ(Ask("GET", "/").status, 200);
  EXPECT_EQ(Ask("HEAD", "/").status, 200);
  EXPECT_EQ(Ask("GET", "/health").json()["status"], "ok");
  EXPECT_EQ(Ask("GET", "/v1/models?x=1").json()["data"][0]["id"], "org/model");
  EXPECT_EQ(Ask("GET", "/v1/models/org/model").json()["id"], "org/model");
  EXPECT_EQ(Ask("GET", "/v1/models/org%2Fmodel").json()["id"], "org/model");
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", "", kChat).status, 200);
  EXPECT_EQ(Ask("POST", "/v1/completions", "", R"({"prompt": "x"})").status, 200);
  EXPECT_EQ(Ask("POST", "/tokenize", "", R"({"prompt": "x"})").status, 200);
  EXPECT_EQ(Ask("POST", "/detokenize", "", R"({"tokens": [1]})").status, 200);
}

TEST_F(ApiServer, AStreamArrivesEventByEvent) {
  Start();
  TestClient client(server->port());
  const std::string body = R"({"stream": true, "messages": [{"role": "user", "content": "hi"}]})";
  client.Send(fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
      body.size(), body));
  const std::string answer = client.ReadUntil("\r\n0\r\n\r\n");
  EXPECT_NE(answer.find("data: [DONE]\n\n"), std::string::npos) << answer;
  EXPECT_NE(answer.find("\"finish_reason\":\"stop\""), std::string::npos);
}

TEST_F(ApiServer, AnUnknownPathIs404AndAWrongMethod405) {
  Start();
  const Answer unknown = Ask("POST", "/v1/nope");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json()["error"]["message"], "There is no /v1/nope here.");
  const Answer wrong = Ask("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_NE(wrong.head.find("\r\nAllow: POST, OPTIONS"), std::string::npos) << wrong.head;
  EXPECT_EQ(Ask("DELETE", "/v1/models").status, 405);
  EXPECT_EQ(Ask("GET", "/v1/models/").status, 404);
  const Answer anthropic = Ask("POST", "/v1/messages/nope", "", "{}");
  EXPECT_EQ(anthropic.status, 404);
  EXPECT_EQ(anthropic.json()["error"]["type"], "not_found_error");
}

TEST_F(ApiServer, ARefusedRequestWithoutBodyKeepsItsConnection) {
  Start();
  TestClient client(server->port());
  for (int i = 0; i < 2; ++i) {
    client.Send("GET /nope HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(client.ReadAnswer().starts_with("HTTP/1.1 404 "));
  }
}

TEST_F(ApiServer, ErrorsHaveTheirStatus) {
  Start();
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", "", "[]").status, 400);
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", "", "{\"messages\": []}").status, 400);
  const Answer model = Ask("POST", "/v1/chat/completions", "", R"({"model": "nope"})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(model.json()["error"]["code"], "model_not_found");
}

TEST_F(ApiServer, AFullQueueIs429WithRetryAfter) {
  Start({}, {.max_queue = 1, .max_num_seqs = 1});
  const Answer answer = Ask("POST", "/v1/completions", "", R"({"prompt": ["a", "b", "c"]})");
  EXPECT_EQ(answer.status, 429);
  EXPECT_NE(answer.head.find("\r\nRetry-After: "), std::string::npos);
}

TEST_F(ApiServer, AKeyIsAskedForWhereTheTableSaysSo) {
  Start({.api_keys = {"secret-one", "secret-two"}});
  EXPECT_EQ(Ask("GET", "/v1/models").status, 401);
  EXPECT_EQ(Ask("GET", "/v1/models", "Authorization: Bearer wrong\r\n").status, 401);
  EXPECT_EQ(Ask("GET", "/v1/models", "Authorization: Bearer secret-two\r\n").status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models", "X-Api-Key: secret-one\r\n").status, 200);
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", "", kChat).status, 401);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  EXPECT_EQ(Ask("GET", "/metrics").status, 200);
}

TEST_F(ApiServer, TenantsDoNotShareTheBank) {
  Start({.api_keys = {"one", "two"}});
  const std::string body =
      fmt::format(R"({{"prompt": "{}", "max_tokens": 1}})", std::string(4000, 'a'));
  const auto cached = [&](std::string_view key) {
    return Ask("POST", "/v1/completions", fmt::format("x-api-key: {}\r\n", key), body)
        .json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        .get<int>();
  };
  EXPECT_EQ(cached("one"), 0);
  EXPECT_GT(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
}

TEST_F(ApiServer, AForeignHostIsRefusedOnLoopbackWithoutKey) {
  Start();
  const auto status = [&](std::string_view host) {
    TestClient client(server->port());
    client.Send(fmt::format("GET /v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", host));
    return Split(client.ReadAnswer()).status;
  };
  EXPECT_EQ(status("evil.example:8000"), 403);
  EXPECT_EQ(status("localhost:1"), 200);
  Start({.loopback_only = false});
  EXPECT_EQ(status("box.lan:8000"), 200);
}

TEST_F(ApiServer, NoOriginIsGrantedAnything) {
  Start();
  const Answer post =
      Ask("POST", "/v1/chat/completions", "Origin: http://localhost:3000\r\n", kChat);
  EXPECT_EQ(post.status, 200);
  EXPECT_EQ(post.head.find("Access-Control"), std::string::npos);
  const Answer options =
      Ask("OPTIONS", "/v1/chat/completions", "Origin: http://localhost:3000\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.head.find("Access-Control"), std::string::npos);
}

TEST_F(ApiServer, APageFromElsewhereStartsNothingOnLoopbackWithoutKey) {
  Start();
  const std::string_view from_page = "Origin: https://evil.example\r\nContent-Type: text/plain\r\n";
  const Answer refused = Ask("POST", "/v1/chat/completions", from_page, kChat);
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("https://evil.example"), std::string::npos) << refused.body;
  EXPECT_EQ(refused.head.find("Access-Control"), std::string::npos);
  Start({.loopback_only = false});
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", from_page, kChat).status, 200);
}

TEST_F(ApiServer, ARequestIdIsEchoedWhenItIsPlain) {
  Start();
  EXPECT_NE(Ask("GET", "/health", "X-Request-Id: abc-1\r\n").head.find("X-Request-Id: abc-1\r\n"),
            std::string::npos);
  EXPECT_NE(Ask("GET", "/health", "X-Request-Id: a\tb c\r\n").head.find("X-Request-Id: req-"),
            std::string::npos);
}

TEST_F(ApiServer, MetricsCountRequestsAndTokens) {
  Start();
  Ask("POST", "/v1/chat/completions", "", kChat);
  Ask("GET", "/v1/models/a/b");
  Ask("GET", "/nope/1");
  const std::vector<std::string> lines = {
      "emberbank_http_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 1",
      "emberbank_http_requests_total{route=\"/v1/models/{id}\",status=\"404\"} 1",
      "emberbank_http_requests_total{route=\"other\",status=\"404\"} 1",
      "emberbank_requests_running{model=\"org/model\"} 0",
      "emberbank_requests_waiting{model=\"org/model\"} 0",
      "emberbank_requests_cancelled_in_queue_total{model=\"org/model\"} 0",
      "emberbank_requests_finished_total{model=\"org/model\"} 1",
      "emberbank_time_to_first_token_seconds_count 1",
      "emberbank_kv_budget_bytes",
      "process_start_time_seconds"};
  std::string text;
  const auto missing = [&] {
    return std::ranges::find_if(
        lines, [&](const std::string& line) { return text.find(line) == std::string::npos; });
  };
  for (int i = 0; i < 400; ++i) {  // a request is counted just after its answer is written
    text = Ask("GET", "/metrics").body;
    if (missing() == lines.end()) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << *missing() << " is missing in\n" << text;
}

TEST_F(ApiServer, AClientThatLeavesWhilePrefillingCancelsItsRequest) {
  Start({}, {.pieces = std::vector<std::string>(3000, " a"), .prefill_delay_s = 0.3});
  {
    TestClient client(server->port());
    client.Send(fmt::format(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
        kChat.size(), kChat));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  scheduler::SchedulerStats stats;
  for (int i = 0; i < 400; ++i) {
    stats = models->model.scheduler->stats();
    if (stats.requests_cancelled == 1) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(stats.requests_cancelled, 1U);
  EXPECT_LT(stats.completion_tokens, 1000U);
}

}  // namespace
}  // namespace http
