#include "app/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

namespace app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::error_code;

// One connection and the loop that drives it. Asynchronous only so that a call can be cancelled.
class Connection {
 public:
  explicit Connection(const std::function<bool()>& cancelled) : cancelled_(cancelled) {}

  // Starts an operation by `start(handler)` and drives it to its end.
  template <class Start>
  error_code Run(Start start) {
    constexpr std::chrono::milliseconds kLookAtCancel{50};
    if (IsCancelled()) {  // pieces may come faster than the loop below looks
      return asio::error::operation_aborted;
    }
    std::optional<error_code> result;
    start([&](error_code error, auto&&...) { result = error; });
    io_.restart();
    while (!result) {
      io_.run_for(kLookAtCancel);
      if (!result && IsCancelled()) {
        stream_.close();
        io_.run();
      }
    }
    return *result;
  }

  [[nodiscard]] asio::io_context& io() { return io_; }
  [[nodiscard]] beast::tcp_stream& stream() { return stream_; }
  [[nodiscard]] bool was_cancelled() const { return was_cancelled_; }

 private:
  [[nodiscard]] bool IsCancelled() {
    was_cancelled_ = was_cancelled_ || (cancelled_ && cancelled_());
    return was_cancelled_;
  }

  asio::io_context io_;
  beast::tcp_stream stream_{io_};
  const std::function<bool()>& cancelled_;
  bool was_cancelled_ = false;
};

error_code Connect(Connection& connection, const ServerUrl& url) {
  asio::ip::tcp::resolver resolver(connection.io());
  error_code error;
  const auto endpoints = resolver.resolve(url.host, url.port, error);
  if (error) {
    return error;
  }
  return connection.Run([&](auto handler) {
    connection.stream().async_connect(
        endpoints,
        [handler](error_code failed, const asio::ip::tcp::endpoint&) mutable { handler(failed); });
  });
}

beast::http::request<beast::http::string_body> MakeRequest(const ServerUrl& url,
                                                           const HttpCall& call) {
  namespace http = beast::http;
  http::request<http::string_body> request;
  request.method_string(call.method);
  request.target(url.base + call.path);
  request.version(11);
  request.set(http::field::host, url.host + ":" + url.port);
  request.set(http::field::connection, "close");
  if (!call.api_key.empty()) {
    request.set(http::field::authorization, "Bearer " + call.api_key);
  }
  if (!call.body.empty()) {
    request.set(http::field::content_type, "application/json");
    request.body() = call.body;
  }
  request.prepare_payload();
  return request;
}

// Reads the answer; hands pieces of a 200 on as they come.
error_code Read(Connection& connection, const std::function<void(std::string_view)>& on_piece,
                HttpAnswer& answer) {
  namespace http = beast::http;
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  error_code error = connection.Run(
      [&](auto handler) { http::async_read_header(connection.stream(), buffer, parser, handler); });
  if (error) {
    return error;
  }
  answer.status = static_cast<int>(parser.get().result_int());
  std::string& body = parser.get().body();
  const bool in_pieces = on_piece && answer.status == 200;
  while (!error && !parser.is_done()) {
    error = connection.Run(
        [&](auto handler) { http::async_read_some(connection.stream(), buffer, parser, handler); });
    if (in_pieces) {
      on_piece(body);
      body.clear();
    }
  }
  answer.body = std::move(body);
  return error;
}

}  // namespace

Result<ServerUrl> ParseServerUrl(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) {
    return Fail(
        ErrorCode::kUnsupported,
        fmt::format("--url must begin with http://, got \"{}\"; https is not supported.", url));
  }
  if (!url.starts_with(kScheme)) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("--url must be of the form http://host:port, got \"{}\".", url));
  }
  const std::string rest = url.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  ServerUrl parsed{.host = authority, .port = "80", .base = rest.substr(slash)};
  const std::size_t bracket = authority.find(']');  // [::1]:8000
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    parsed.host = authority.substr(0, colon);
    parsed.port = authority.substr(colon + 1);
  }
  if (bracket != std::string::npos && parsed.host.starts_with('[')) {
    parsed.host = parsed.host.substr(1, bracket - 1);
  }
  while (parsed.base.ends_with('/')) {
    parsed.base.pop_back();
  }
  if (parsed.base.ends_with("/v1")) {
    parsed.base.resize(parsed.base.size() - 3);
  }
  if (parsed.host.empty() || parsed.port.empty()) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("--url must be of the form http://host:port, got \"{}\".", url));
  }
  return parsed;
}

Result<HttpAnswer> Call(const ServerUrl& url, const HttpCall& call,
                        const std::function<void(std::string_view)>& on_piece,
                        const std::function<bool()>& cancelled) {
  Connection connection(cancelled);
  HttpAnswer answer;
  error_code error = Connect(connection, url);
  if (!error) {
    const auto request = MakeRequest(url, call);
    error = connection.Run(
        [&](auto handler) { beast::http::async_write(connection.stream(), request, handler); });
  }
  if (!error) {
    error = Read(connection, on_piece, answer);
  }
  answer.cancelled = connection.was_cancelled();
  if (error && !answer.cancelled) {
    return Fail(ErrorCode::kIo,
                fmt::format("No answer from {}:{}: {}.", url.host, url.port, error.message()));
  }
  return answer;
}

}  // namespace app
