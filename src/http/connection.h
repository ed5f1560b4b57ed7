#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "http/body_budget.h"
#include "http/exchange.h"
#include "http/server.h"
#include "http/worker_pool.h"

namespace http {

// What the connections of a server share.
struct ServerShared {
  const ServerOptions& options;
  RequestHandler& handler;
  WorkerPool& workers;
  BodyBudget bodies{options.max_held_bytes};
  std::atomic<bool> draining{false};
};

// One client's connection: reads requests, has each answered by a worker, and meanwhile watches
// whether the client is still there. All but Write and gone runs on the socket's strand.
//
//   waiting -> header -> body -> answering -> waiting ...
//      |         |        |         |
//      +---------+--------+---------+--> lingering -> closed
//
// What is thrown on the way (bad_alloc) ends as a 500 where no answer has begun, else as a closed
// connection; it never reaches the threads that serve the others.
class Connection final : public ByteSink, public std::enable_shared_from_this<Connection> {
 public:
  // The socket's executor is a strand. `shared` outlives the connection.
  Connection(boost::asio::ip::tcp::socket socket, ServerShared& shared);

  // Serves until the end, then calls `on_end`.
  void Start(std::function<void()> on_end);
  // Answers 503 and closes.
  void StartRefusing(std::function<void()> on_end);

  // Any thread: closes it when no request is under way (`shared.draining` is set already).
  void Drain();
  // Any thread: closes it now.
  void Abort();

  // Called by the worker. A client that has closed its sending side counts as gone, for nothing
  // tells it from one that left, but is still sent what is written: it may read on.
  bool Write(std::string_view bytes) override;
  [[nodiscard]] bool gone() const override { return gone_ || sent_all_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using SystemError = boost::system::error_code;
  struct Job;

  boost::asio::awaitable<void> Run();
  boost::asio::awaitable<void> Refuse();
  boost::asio::awaitable<bool> ServeOne();
  boost::asio::awaitable<bool> AwaitFirstByte();
  boost::asio::awaitable<bool> ReadBody(Parser& parser, const AnswerForm& form,
                                        BodyBudget::Share& share);
  boost::asio::awaitable<bool> AnswerRequest(std::shared_ptr<Job> job);
  boost::asio::awaitable<void> WatchClient();
  boost::asio::awaitable<void> SendNow(std::string_view bytes);
  boost::asio::awaitable<void> SendErrorNow(AnswerForm form, int status, const Error& error,
                                            std::string_view allow);
  boost::asio::awaitable<void> SendReadError(AnswerForm form, const SystemError& error);
  boost::asio::awaitable<void> Linger();
  void Work(const api::ApiRequest& request, Exchange& exchange);
  void WriteOnStrand(std::string_view bytes, std::promise<bool>& written);
  void ArmDeadline(std::chrono::milliseconds duration);
  void DisarmDeadline() { ++deadline_generation_; }
  void Close();

  boost::asio::ip::tcp::socket socket_;
  ServerShared& shared_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer answered_signal_;
  boost::beast::flat_buffer buffer_;  // read but not parsed: pipelined requests
  std::uint64_t deadline_generation_ = 0;
  bool timed_out_ = false;
  bool is_idle_ = false;      // waiting for a first byte, or lingering
  bool body_unread_ = false;  // the client may still be sending what nobody wants
  bool answered_ = false;
  bool is_answering_ = false;  // bytes of an answer are on their way: no other may begin
  std::atomic<bool> gone_{false};
  std::atomic<bool> sent_all_{false};  // the client's stream has ended
};

}  // namespace http
