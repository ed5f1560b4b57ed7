#include "http/server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "http/test_client.h"

namespace http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = steady_clock::now() + seconds(10);
  while (!holds()) {
    if (steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// Answers by path: what a test needs.
class FakeHandler final : public RequestHandler {
 public:
  std::optional<EarlyAnswer> Check(api::ApiRequest& head) override {
    if (head.path == "/refused") {
      return EarlyAnswer{
          .status = 401,
          .error = Error{.code = ErrorCode::kUnauthorized, .message = "No key.", .param = {}}};
    }
    if (head.path == "/check-throws") {
      throw std::bad_alloc();
    }
    return std::nullopt;
  }

  void Answer(const api::ApiRequest& request, api::Reply& reply) override {
    ++answering;
    if (request.path == "/echo") {
      reply.SendText(200, "text/plain", request.body);
    } else if (request.path == "/size") {
      reply.SendText(200, "text/plain", std::to_string(request.body.size()));
    } else if (request.path == "/throw") {
      throw std::runtime_error("secret detail");
    } else if (request.path == "/forget") {
    } else if (request.path == "/throw-in-stream") {
      reply.BeginEvents();
      reply.SendEvent("one");
      throw std::runtime_error("secret detail");
    } else if (request.path == "/until-gone") {
      while (!reply.client_gone()) {
        std::this_thread::sleep_for(milliseconds(2));
      }
    } else if (request.path == "/stream-until-gone") {
      reply.BeginEvents();
      while (!reply.client_gone()) {
        reply.SendEvent("tick");
        std::this_thread::sleep_for(milliseconds(2));
      }
    } else if (request.path == "/flood") {
      reply.BeginEvents();
      const std::string data(100'000, 'x');
      for (int i = 0; i < 1000 && !reply.client_gone(); ++i) {
        reply.SendEvent(data);
        ++flooded;
      }
      reply.EndEvents();
    } else if (request.path == "/three") {
      reply.BeginEvents();
      reply.SendEvent("a");
      reply.KeepAlive();
      reply.SendNamedEvent("n", "b");
      reply.EndEvents();
    } else {
      std::this_thread::sleep_for(milliseconds(50));
      reply.SendJson(200, {{"path", request.path}});
    }
    --answering;
  }

  void OnFinished(const AnswerRecord& record) override {
    const std::lock_guard lock(mutex);
    statuses.push_back(record.status);
    gone += record.client_gone ? 1 : 0;
  }

  int finished() {
    const std::lock_guard lock(mutex);
    return static_cast<int>(statuses.size());
  }

  std::atomic<int> answering{0};
  std::atomic<int> flooded{0};
  std::mutex mutex;
  std::vector<int> statuses;
  int gone = 0;
};

class HttpServer : public testing::Test {
 protected:
  void Start(ServerOptions options = {}) {
    options.port = 0;
    Result<std::unique_ptr<Server>> started = Server::Start(options, handler);
    ASSERT_TRUE(started) << started.error().message;
    server = std::move(*started);
  }

  std::string Ask(std::string_view bytes) {
    TestClient client(server->port());
    client.Send(bytes);
    return client.ReadAnswer();
  }

  static std::string Post(std::string_view path, std::string_view body) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", path,
                       body.size(), body);
  }

  FakeHandler handler;
  std::unique_ptr<Server> server;
};

TEST_F(HttpServer, ABodyReachesTheHandlerAndTheAnswerTheClient) {
  Start();
  const std::string answer = Ask(Post("/echo?x=1", "hello"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
}

TEST_F(HttpServer, ChunkedBodiesAreRead) {
  Start();
  const std::string answer =
      Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("abcde")) << answer;
}

TEST_F(HttpServer, OneConnectionServesManyRequests) {
  Start();
  TestClient client(server->port());
  for (int i = 0; i < 5; ++i) {
    client.Send(Post("/echo", std::to_string(i)));
    EXPECT_TRUE(client.ReadAnswer().ends_with(std::to_string(i)));
  }
  client.Send("GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.ReadAnswer().find("Connection: close"), std::string::npos);
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  Start();
  TestClient client(server->port());
  client.Send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n" + Post("/echo", "second") +
              Post("/echo", "third"));
  std::this_thread::sleep_for(milliseconds(10));
  client.Send(Post("/echo", "fourth"));  // while the first is answered
  EXPECT_TRUE(client.ReadAnswer().ends_with("{\"path\":\"/slow\"}"));
  EXPECT_TRUE(client.ReadAnswer().ends_with("second"));
  EXPECT_TRUE(client.ReadAnswer().ends_with("third"));
  EXPECT_TRUE(client.ReadAnswer().ends_with("fourth"));
}

TEST_F(HttpServer, AHeadAnswerHasNoBody) {
  Start();
  TestClient client(server->port());
  client.Send("HEAD /slow HTTP/1.1\r\nHost: localhost\r\n\r\n" + Post("/echo", "next"));
  const std::string head = client.ReadUntil("\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 16"), std::string::npos) << head;
  EXPECT_TRUE(client.ReadAnswer().ends_with("next"));
}

TEST_F(HttpServer, AnExpectedContinueComesBeforeTheBody) {
  Start();
  TestClient client(server->port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
      "\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("ok");
  EXPECT_TRUE(client.ReadAnswer().ends_with("ok"));
}

TEST_F(HttpServer, ARefusedHeaderIsAnsweredBeforeTheBodyComes) {
  Start();
  TestClient client(server->port());
  client.Send(
      "POST /refused HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000000"
      "\r\n\r\n");
  EXPECT_TRUE(client.ReadAnswer().starts_with("HTTP/1.1 401 "));
}

TEST_F(HttpServer, AnOversizeBodyIs413AndTheSenderComesToReadIt) {
  Start({.max_body_bytes = 1000});
  const std::string answer = Ask(Post("/echo", std::string(20'000'000, 'x')));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer.substr(0, 300);
  EXPECT_NE(answer.find("1000 bytes"), std::string::npos) << answer;
  // The same in chunks, whose size is not told in advance.
  std::string chunks =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 3; ++i) {
    chunks += "1f4\r\n" + std::string(500, 'x') + "\r\n";
  }
  EXPECT_TRUE(Ask(chunks + "0\r\n\r\n").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(Ask(Post("/size", std::string(1000, 'x'))).ends_with("1000"));
}

TEST_F(HttpServer, BodiesOfAllClientsTogetherHaveALimit) {
  Start({.max_held_bytes = 1000});
  TestClient holding(server->port());
  holding.Send(Post("/until-gone", std::string(600, 'x')));
  ASSERT_TRUE(Eventually([&] { return handler.answering > 0; }));
  const std::string answer = Ask(Post("/size", std::string(500, 'x')));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("limit of 1000 bytes"), std::string::npos) << answer;
  EXPECT_TRUE(Ask(Post("/size", std::string(400, 'x'))).ends_with("400"));
  EXPECT_TRUE(Ask("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 200 "));
  holding.Close();
  // Given back; and a body that is the only one is held by its own limit alone.
  EXPECT_TRUE(
      Eventually([&] { return Ask(Post("/size", std::string(2000, 'x'))).ends_with("2000"); }));
}

TEST_F(HttpServer, AnOversizeHeaderIs431) {
  Start({.max_header_bytes = 1000});
  EXPECT_TRUE(Ask("GET / HTTP/1.1\r\nX: " + std::string(5000, 'x') + "\r\n\r\n")
                  .starts_with("HTTP/1.1 431 "));
}

TEST_F(HttpServer, WhatIsNotHttpIs400AndTheServerGoesOn) {
  Start();
  for (const char* bytes :
       {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00\x01",
        "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nBad Header\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"}) {
    TestClient client(server->port());
    client.Send(bytes);
    client.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send);
    const std::string answer = client.ReadToEnd();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 400 ")) << bytes << ": " << answer;
  }
  EXPECT_TRUE(Ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(Ask(Post("/echo", "still here")).ends_with("still here"));
}

TEST_F(HttpServer, SlowHeadersAndBodiesAre408) {
  Start({.header_timeout = milliseconds(50), .body_timeout = milliseconds(50)});
  EXPECT_TRUE(Ask("GET / HT").starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab")
                  .starts_with("HTTP/1.1 408 "));
}

TEST_F(HttpServer, AnIdleConnectionIsClosedInSilence) {
  Start({.idle_timeout = milliseconds(50)});
  TestClient client(server->port());
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServer, AThrowingHandlerIs500WithoutInternals) {
  Start();
  const std::string answer = Ask(Post("/throw", ""));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
  EXPECT_EQ(answer.find("secret"), std::string::npos) << answer;
  EXPECT_TRUE(Ask(Post("/forget", "")).starts_with("HTTP/1.1 500 "));
}

TEST_F(HttpServer, AThrowBeforeTheHandlerIs500AndTheServerGoesOn) {
  Start();
  TestClient client(server->port());
  client.Send(Post("/check-throws", "body"));
  const std::string answer = client.ReadAnswer();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
  client.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send);
  EXPECT_TRUE(client.IsClosed());
  EXPECT_TRUE(Ask(Post("/echo", "still here")).ends_with("still here"));
}

TEST_F(HttpServer, AThrowInAStreamIsAnErrorEventAndNoCleanEnd) {
  Start();
  TestClient client(server->port());
  client.Send(Post("/throw-in-stream", ""));
  const std::string answer = client.ReadToEnd();
  EXPECT_NE(answer.find("data: {\"error\""), std::string::npos) << answer;
  EXPECT_FALSE(answer.ends_with("\r\n0\r\n\r\n")) << answer;
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServer, EventsAreChunksOfAnEventStream) {
  Start();
  TestClient client(server->port());
  client.Send(Post("/three", ""));
  const std::string head = client.ReadUntil("\r\n\r\n");
  EXPECT_NE(head.find("Content-Type: text/event-stream"), std::string::npos);
  EXPECT_NE(head.find("Cache-Control: no-cache"), std::string::npos);
  EXPECT_NE(head.find("X-Accel-Buffering: no"), std::string::npos);
  EXPECT_EQ(client.ReadUntil("\r\n0\r\n\r\n"),
            "9\r\ndata: a\n\n\r\nd\r\n: keepalive\n\n\r\n12\r\nevent: n\ndata: b\n\n\r\n0\r\n\r\n");
  client.Send(Post("/echo", "again"));
  EXPECT_TRUE(client.ReadAnswer().ends_with("again"));
}

TEST_F(HttpServer, AnOldClientGetsEventsWithoutChunks) {
  Start();
  TestClient client(server->port());
  client.Send("GET /three HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(
      client.ReadToEnd().ends_with("\r\n\r\ndata: a\n\n: keepalive\n\nevent: n\ndata: b\n\n"));
}

TEST_F(HttpServer, AHandlerSeesThatItsClientLeftThoughNothingWasWritten) {
  Start();
  TestClient client(server->port());
  client.Send(Post("/until-gone", ""));
  ASSERT_TRUE(Eventually([&] { return handler.answering == 1; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return handler.answering == 0; }));
  ASSERT_TRUE(Eventually([&] { return handler.finished() == 1; }));
  EXPECT_EQ(handler.gone, 1);
}

TEST_F(HttpServer, AClientThatClosedItsSendingSideIsAnswered) {
  Start();
  TestClient client(server->port());
  client.Send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send);
  EXPECT_TRUE(client.ReadToEnd().ends_with("{\"path\":\"/slow\"}"));
  ASSERT_TRUE(Eventually([&] { return handler.finished() == 1; }));
  EXPECT_EQ(handler.gone, 0);
}

TEST_F(HttpServer, AHandlerThatWouldGoOnSeesAClosedSendingSideAsAClientThatLeft) {
  Start();
  TestClient client(server->port());
  client.Send(Post("/until-gone", ""));
  client.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send);
  ASSERT_TRUE(Eventually([&] { return handler.finished() == 1; }));
  EXPECT_EQ(handler.gone, 1);
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpServer, ALeavingClientIsSeenBehindPipelinedBytesToo) {
  Start();
  TestClient client(server->port());
  client.Send(Post("/until-gone", "") + Post("/echo", "never"));
  ASSERT_TRUE(Eventually([&] { return handler.answering == 1; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return handler.answering == 0; }));
}

TEST_F(HttpServer, AStreamingHandlerSeesThatItsClientLeft) {
  Start();
  TestClient client(server->port());
  client.Send(Post("/stream-until-gone", ""));
  EXPECT_NE(client.ReadUntil("data: tick").find("data: tick"), std::string::npos);
  client.Close();
  EXPECT_TRUE(Eventually([&] { return handler.answering == 0; }));
}

TEST_F(HttpServer, ASlowReaderHoldsItsHandlerBackAndIsGivenUp) {
  Start({.write_timeout = milliseconds(300)});
  TestClient client(server->port());
  client.Send(Post("/flood", ""));
  EXPECT_TRUE(Eventually([&] { return handler.finished() == 1; }));
  EXPECT_LT(handler.flooded, 1000) << "100 MB do not fit into the system's buffers";
  EXPECT_EQ(handler.gone, 1);
}

TEST_F(HttpServer, TwoHundredConnectionsAreServedAtOnce) {
  Start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<TestClient>(server->port()));
    clients.back()->Send(Post("/until-gone", ""));
  }
  EXPECT_TRUE(Eventually([&] { return handler.answering == 200; }));
  EXPECT_TRUE(Ask(Post("/echo", "me too")).ends_with("me too"));
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return handler.finished() == 201; }));
}

TEST_F(HttpServer, AConnectionOverTheLimitIsTold) {
  Start({.max_connections = 2});
  TestClient one(server->port());
  TestClient two(server->port());
  one.Send(Post("/echo", "1"));
  two.Send(Post("/echo", "2"));
  one.ReadAnswer();
  two.ReadAnswer();
  EXPECT_TRUE(Ask(Post("/echo", "3")).starts_with("HTTP/1.1 503 "));
  one.Close();
  EXPECT_TRUE(Eventually([&] { return Ask(Post("/echo", "4")).ends_with("\r\n4"); }));
}

TEST_F(HttpServer, AShutdownLetsAnAnswerFinishAndClosesIdleConnections) {
  Start();
  TestClient idle(server->port());
  idle.Send(Post("/echo", "x"));
  idle.ReadAnswer();
  ASSERT_TRUE(Eventually([&] { return handler.answering == 0; }));
  TestClient busy(server->port());
  busy.Send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return handler.answering == 1; }));
  const auto begin = steady_clock::now();
  server->Shutdown(steady_clock::now() + seconds(30));
  EXPECT_LT(steady_clock::now() - begin, seconds(5));
  EXPECT_TRUE(busy.ReadAnswer().ends_with("{\"path\":\"/slow\"}"));
  EXPECT_TRUE(idle.IsClosed());
  EXPECT_THROW(TestClient late(server->port()), boost::system::system_error);
}

TEST_F(HttpServer, AShutdownCutsStreamsOffAtItsDeadline) {
  Start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<TestClient>(server->port()));
    clients.back()->Send(Post(i % 2 == 0 ? "/stream-until-gone" : "/until-gone", ""));
  }
  ASSERT_TRUE(Eventually([&] { return handler.answering == 8; }));
  const auto begin = steady_clock::now();
  server->Shutdown(steady_clock::now() + milliseconds(200));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(200));
  EXPECT_LT(steady_clock::now() - begin, seconds(5));
  EXPECT_EQ(handler.answering, 0);
  EXPECT_EQ(handler.gone, 8);
}

TEST_F(HttpServer, APortInUseIsToldWithItsNumber) {
  Start();
  const Result<std::unique_ptr<Server>> second = Server::Start({.port = server->port()}, handler);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_NE(second.error().message.find(std::to_string(server->port())), std::string::npos);
}

}  // namespace
}  // namespace http
