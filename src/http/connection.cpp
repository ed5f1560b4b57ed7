#include "http/connection.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "http/error_response.h"
#include "http/request_head.h"

namespace http {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using std::chrono::milliseconds;

// Beyond this much of later requests the client is no longer watched while it is answered.
constexpr std::size_t kMaxPipelinedBytes = 64U << 10U;
constexpr std::size_t kReadBytes = 16U << 10U;
// How long a client may go on sending a body that was refused, so that it comes to read why.
constexpr milliseconds kLingerForBody{10'000};
constexpr milliseconds kLinger{1'000};

// The bytes of an answer that is made without a worker.
class StringSink final : public ByteSink {
 public:
  bool Write(std::string_view more) override {
    bytes += more;
    return true;
  }
  [[nodiscard]] bool gone() const override { return false; }

  std::string bytes;
};

}  // namespace

// A request with a worker. shared: by the worker and the coroutine that waits for it, which an
// exception may end first.
struct Connection::Job {
  Job(api::ApiRequest the_request, ByteSink& sink, AnswerForm form)
      : request(std::move(the_request)), exchange(sink, std::move(form)) {}

  const api::ApiRequest request;
  Exchange exchange;
};

Connection::Connection(asio::ip::tcp::socket socket, ServerShared& shared)
    : socket_(std::move(socket)),
      shared_(shared),
      deadline_(socket_.get_executor()),
      answered_signal_(socket_.get_executor()) {
  SystemError ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);  // each event at once
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
}

void Connection::Start(std::function<void()> on_end) {
  asio::co_spawn(socket_.get_executor(), Run(),
                 [self = shared_from_this(), end = std::move(on_end)](std::exception_ptr failure) {
                   if (failure != nullptr) {
                     spdlog::error("a connection failed with an exception");
                   }
                   self->Close();
                   end();
                 });
}

void Connection::StartRefusing(std::function<void()> on_end) {
  asio::co_spawn(socket_.get_executor(), Refuse(),
                 [self = shared_from_this(), end = std::move(on_end)](std::exception_ptr) {
                   self->Close();
                   end();
                 });
}

void Connection::Drain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->is_idle_) {
      SystemError ignored;
      self->socket_.cancel(ignored);
    }
  });
}

void Connection::Abort() {
  gone_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Close(); });
}

void Connection::Close() {
  gone_ = true;
  DisarmDeadline();
  deadline_.cancel();
  SystemError ignored;
  socket_.close(ignored);
}

// The deadline stays armed until DisarmDeadline: a timer whose handler is already on its way cannot
// be cancelled, so that a generation tells whether it still counts.
void Connection::ArmDeadline(milliseconds duration) {
  timed_out_ = false;
  deadline_.expires_after(duration);
  deadline_.async_wait(
      [self = shared_from_this(), generation = ++deadline_generation_](const SystemError& error) {
        if (!error && generation == self->deadline_generation_) {
          self->timed_out_ = true;
          SystemError ignored;
          self->socket_.cancel(ignored);
        }
      });
}

bool Connection::Write(std::string_view bytes) {
  if (gone_) {
    return false;
  }
  // `bytes` and `written` live until the strand has answered: this thread waits for it.
  std::promise<bool> written;
  std::future<bool> result = written.get_future();
  asio::post(socket_.get_executor(), [this, bytes, &written] { WriteOnStrand(bytes, written); });
  return result.get();
}

void Connection::WriteOnStrand(std::string_view bytes, std::promise<bool>& written) {
  if (gone_) {
    written.set_value(false);
    return;
  }
  is_answering_ = true;
  try {
    ArmDeadline(shared_.options.write_timeout);
    asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()),
                      [this, &written](const SystemError& error, std::size_t) {
                        DisarmDeadline();
                        if (error) {
                          gone_ = true;
                        }
                        written.set_value(!error);
                      });
  } catch (const std::exception& error) {  // nothing was begun
    spdlog::error("an answer could not be written: {}", error.what());
    gone_ = true;
    written.set_value(false);
  }
}

asio::awaitable<void> Connection::Run() {
  bool more = true;
  bool failed = false;
  while (more) {
    try {
      more = co_await ServeOne();
    } catch (const std::exception& error) {
      spdlog::error("a connection failed: {}", error.what());
      failed = true;
    }
    if (failed && !is_answering_) {
      AnswerForm form;  // named: g++ 12 destroys an aggregate made inside a co_await twice
      form.request_id = RequestId({});
      form.keep_alive = false;
      body_unread_ = true;
      const Error failure{.code = ErrorCode::kInternal,
                          .message = "The server failed to read this request; its log has more.",
                          .param = {}};
      co_await SendErrorNow(std::move(form), 500, failure, {});
    }
    more = more && !failed;
  }
  co_await Linger();
}

asio::awaitable<void> Connection::Refuse() {
  const Error error{.code = ErrorCode::kOverloaded,
                    .message = fmt::format("The server has its limit of {} connections open.",
                                           shared_.options.max_connections),
                    .param = {}};
  body_unread_ = true;
  AnswerForm form;  // named: g++ 12 destroys an aggregate made inside a co_await twice
  form.request_id = RequestId({});
  form.keep_alive = false;
  co_await SendErrorNow(std::move(form), 503, error, {});
  co_await Linger();
}

// Returns whether the connection may serve another request.
asio::awaitable<bool> Connection::ServeOne() {
  const bool is_there = co_await AwaitFirstByte();
  if (!is_there) {
    co_return false;
  }
  is_answering_ = false;
  Parser parser;
  parser.header_limit(shared_.options.max_header_bytes);
  parser.body_limit(shared_.options.max_body_bytes);
  SystemError error;
  ArmDeadline(shared_.options.header_timeout);
  co_await beast_http::async_read_header(socket_, buffer_, parser,
                                         redirect_error(use_awaitable, error));
  DisarmDeadline();
  api::ApiRequest request = ToApiRequest(parser.get().base());
  AnswerForm form{.path = request.path,
                  .request_id = request.request_id,
                  .is_head = request.method == "HEAD",
                  .is_http10 = parser.get().version() < 11,
                  .keep_alive = parser.get().keep_alive() && !shared_.draining};
  if (error) {
    co_await SendReadError(std::move(form), error);
    co_return false;
  }
  if (const std::optional<EarlyAnswer> early = shared_.handler.Check(request)) {
    body_unread_ = !parser.is_done();
    form.keep_alive = form.keep_alive && !body_unread_;
    const bool keep_alive = form.keep_alive;
    const auto begin = std::chrono::steady_clock::now();
    if (early->error) {
      co_await SendErrorNow(std::move(form), early->status, *early->error, early->allow);
    } else {
      StringSink sink;
      Exchange exchange(sink, std::move(form));
      exchange.SendEmpty(early->status, early->allow);
      co_await SendNow(sink.bytes);
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    shared_.handler.OnFinished(
        {.request = request, .status = early->status, .duration_ms = took.count()});
    co_return keep_alive && !gone();
  }
  BodyBudget::Share share(shared_.bodies);
  const bool is_read = co_await ReadBody(parser, form, share);
  if (!is_read) {
    co_return false;
  }
  request.body = std::move(parser.get().body());
  const auto job = std::make_shared<Job>(std::move(request), *this, form);
  const bool is_answered = co_await AnswerRequest(job);
  if (!is_answered) {
    form.keep_alive = false;
    const Error no_thread{.code = ErrorCode::kOverloaded,
                          .message = "The server has no thread left to answer this request.",
                          .param = {}};
    co_await SendErrorNow(std::move(form), 503, no_thread, {});
    co_return false;
  }
  co_return job->exchange.keep_alive() && !gone() && !shared_.draining;
}

asio::awaitable<bool> Connection::AwaitFirstByte() {
  if (buffer_.size() > 0) {
    co_return true;
  }
  if (shared_.draining) {
    co_return false;
  }
  SystemError error;
  is_idle_ = true;
  ArmDeadline(shared_.options.idle_timeout);
  co_await socket_.async_wait(asio::ip::tcp::socket::wait_read,
                              redirect_error(use_awaitable, error));
  DisarmDeadline();
  is_idle_ = false;
  co_return !error;
}

asio::awaitable<bool> Connection::ReadBody(Parser& parser, const AnswerForm& form,
                                           BodyBudget::Share& share) {
  if (parser.is_done()) {
    co_return true;
  }
  const auto expect = parser.get()[beast_http::field::expect];
  if (!form.is_http10 && boost::beast::iequals(expect, "100-continue")) {
    co_await SendNow("HTTP/1.1 100 Continue\r\n\r\n");
    is_answering_ = false;
  }
  SystemError error;
  ArmDeadline(shared_.options.body_timeout);
  bool fits = true;
  while (!error && fits && !parser.is_done()) {
    co_await beast_http::async_read_some(socket_, buffer_, parser,
                                         redirect_error(use_awaitable, error));
    fits = share.Grow(parser.get().body().size());
  }
  DisarmDeadline();
  if (error) {
    co_await SendReadError(form, error);
  } else if (!fits) {
    body_unread_ = true;
    AnswerForm refusal = form;
    refusal.keep_alive = false;
    const Error full{.code = ErrorCode::kOverloaded,
                     .message = fmt::format("The requests of all clients together are larger than "
                                            "the limit of {} bytes; try again.",
                                            shared_.options.max_held_bytes),
                     .param = {}};
    co_await SendErrorNow(std::move(refusal), 503, full, {});
  }
  co_return !error && fits;
}

// The request could not be read: says why, unless the client has left.
asio::awaitable<void> Connection::SendReadError(AnswerForm form, const SystemError& error) {
  const ServerOptions& options = shared_.options;
  form.keep_alive = false;
  body_unread_ = true;
  if (form.request_id.empty()) {
    form.request_id = RequestId({});
  }
  Error answer{.code = ErrorCode::kInvalidRequest, .message = {}, .param = {}};
  int status = 400;
  if (timed_out_) {
    status = 408;
    answer = {.code = ErrorCode::kRequestTimeout,
              .message = "The request took too long to arrive.",
              .param = {}};
  } else if (error == beast_http::error::body_limit) {
    status = 413;
    answer = {.code = ErrorCode::kBodyTooLarge,
              .message = fmt::format("The request body is larger than the limit of {} bytes.",
                                     options.max_body_bytes),
              .param = {}};
  } else if (error == beast_http::error::header_limit) {
    status = 431;
    answer.message = fmt::format("The request header is larger than the limit of {} bytes.",
                                 options.max_header_bytes);
  } else if (error.category() == make_error_code(beast_http::error::bad_method).category() &&
             error != beast_http::error::end_of_stream &&
             error != beast_http::error::partial_message) {
    answer.message = fmt::format("The request is not valid HTTP/1.1: {}.", error.message());
  } else {
    gone_ = true;
    co_return;
  }
  co_await SendErrorNow(std::move(form), status, answer, {});
}

asio::awaitable<void> Connection::SendErrorNow(AnswerForm form, int status, const Error& error,
                                               std::string_view allow) {
  StringSink sink;
  Exchange exchange(sink, std::move(form));
  exchange.SendErrorWith(status, error, allow);
  co_await SendNow(sink.bytes);
}

asio::awaitable<void> Connection::SendNow(std::string_view bytes) {
  SystemError error;
  is_answering_ = true;
  ArmDeadline(shared_.options.write_timeout);
  co_await asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()),
                             redirect_error(use_awaitable, error));
  DisarmDeadline();
  if (error) {
    gone_ = true;
  }
}

// Has a worker answer. Returns false when there is no worker to be had.
asio::awaitable<bool> Connection::AnswerRequest(std::shared_ptr<Job> job) {
  answered_ = false;
  answered_signal_.expires_at(asio::steady_timer::time_point::max());
  try {
    shared_.workers.Run([self = shared_from_this(), job = std::move(job)] {
      self->Work(job->request, job->exchange);
      asio::post(self->socket_.get_executor(), [self] {
        self->answered_ = true;
        SystemError ignored;
        self->socket_.cancel(ignored);  // ends WatchClient
        self->answered_signal_.cancel();
      });
    });
  } catch (const std::exception& error) {
    spdlog::error("no thread for a request: {}", error.what());
    co_return false;
  }
  is_answering_ = true;  // by the worker, whatever happens here
  try {
    co_await WatchClient();
  } catch (const std::exception& error) {  // then only a failing write tells that the client left
    spdlog::error("a client could not be watched: {}", error.what());
  }
  while (!answered_) {
    SystemError ignored;
    co_await answered_signal_.async_wait(redirect_error(use_awaitable, ignored));
  }
  co_return true;
}

// On a worker thread.
void Connection::Work(const api::ApiRequest& request, Exchange& exchange) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    shared_.handler.Answer(request, exchange);
  } catch (const std::exception& error) {
    spdlog::error("request {} failed: {}", request.request_id, error.what());
    exchange.SendFailure();
  } catch (...) {
    spdlog::error("request {} failed", request.request_id);
    exchange.SendFailure();
  }
  exchange.Finish();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  shared_.handler.OnFinished({.request = request,
                              .status = exchange.status(),
                              .duration_ms = took.count(),
                              .usage = exchange.usage(),
                              .client_gone = exchange.is_cut_off()});
}

// Reads while the answer is made: the end of the stream means that the client has left or will send
// nothing more; anything else is the beginning of its next request.
asio::awaitable<void> Connection::WatchClient() {
  while (!answered_ && !gone() && buffer_.size() < kMaxPipelinedBytes) {
    SystemError error;
    const std::size_t n = co_await socket_.async_read_some(buffer_.prepare(kReadBytes),
                                                           redirect_error(use_awaitable, error));
    buffer_.commit(n);
    if (error == asio::error::operation_aborted) {
      co_return;
    }
    if (error == asio::error::eof) {
      sent_all_ = true;
    } else if (error) {
      gone_ = true;
    }
  }
}

// Lets the client read the last answer before the connection goes: closing with unread bytes in the
// system's buffer would reset it.
asio::awaitable<void> Connection::Linger() {
  if (gone_ || !socket_.is_open()) {
    co_return;
  }
  SystemError error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  is_idle_ = true;
  ArmDeadline(body_unread_ ? kLingerForBody : kLinger);
  while (!error && !(shared_.draining && !body_unread_)) {
    buffer_.clear();
    co_await socket_.async_read_some(buffer_.prepare(kReadBytes),
                                     redirect_error(use_awaitable, error));
  }
  DisarmDeadline();
  is_idle_ = false;
}

}  // namespace http
