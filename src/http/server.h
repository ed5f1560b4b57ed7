#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/reply.h"
#include "base/result.h"

namespace http {

struct ServerOptions {
  std::string host = "127.0.0.1";  // address or name to listen on
  int port = 8000;                 // 0: any free one, see Server::port()
  int io_threads = 2;
  int max_connections = 1024;                        // more are answered with 503
  std::uint32_t max_header_bytes = 64U << 10U;       // more: 431
  std::uint64_t max_body_bytes = 64ULL << 20U;       // more: 413
  std::uint64_t max_held_bytes = 512ULL << 20U;      // of all requests' bodies; more: 503
  std::chrono::milliseconds header_timeout{30'000};  // from the first byte; then 408
  std::chrono::milliseconds body_timeout{300'000};   // of the whole body; then 408
  std::chrono::milliseconds write_timeout{60'000};   // a client that does not read has left
  std::chrono::milliseconds idle_timeout{75'000};    // between two requests of a connection
};

// A request that is answered as soon as its header is read.
struct EarlyAnswer {
  int status = 400;
  std::optional<Error> error = {};  // the body; none: empty
  std::string allow = {};           // value of the Allow header; may be empty
};

// How a request went, for log and metrics.
struct AnswerRecord {
  const api::ApiRequest& request;
  int status = 0;
  double duration_ms = 0;  // from the whole request read to the whole answer written
  std::optional<api::Usage> usage = {};
  bool client_gone = false;  // before the answer was complete
};

// What a server serves. Called by many threads at once.
class RequestHandler {
 public:
  RequestHandler() = default;
  RequestHandler(const RequestHandler&) = delete;
  RequestHandler& operator=(const RequestHandler&) = delete;
  virtual ~RequestHandler() = default;

  // Asked when the header is read, before the body is; `head` has no body yet. May fill path_params
  // and tenant. Must not block.
  [[nodiscard]] virtual std::optional<EarlyAnswer> Check(api::ApiRequest& head) = 0;
  // Runs on a worker thread of its own and may take as long as it likes.
  virtual void Answer(const api::ApiRequest& request, api::Reply& reply) = 0;
  virtual void OnFinished(const AnswerRecord& record) = 0;
};

// A client whose sending side has ended counts as one that left, as with most servers of this
// field: its generation stops within a step, since nobody may be there to read it. Answers that are
// made at once still reach it, and so does the error of what was stopped.
//
// HTTP/1.1: a few threads read and write, one thread for each request in flight runs the handler.
class Server {
 public:
  // Listens and accepts from now on. `handler` must outlive the server. Errors: kIo with address
  // and reason.
  [[nodiscard]] static Result<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                             RequestHandler& handler);
  // As Shutdown with no time left, if that has not been called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const;

  // Stops accepting, closes idle connections, lets running answers finish until `deadline`, then
  // cuts them off (their handlers see client_gone). Returns when all have ended.
  void Shutdown(std::chrono::steady_clock::time_point deadline);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace http
