#include "http/exchange.h"

#include <fmt/format.h>

#include <utility>

#include "api/error_body.h"
#include "http/error_response.h"
#include "http/sse.h"

namespace http {
namespace {

const Error& Failure() {
  static const Error error{.code = ErrorCode::kInternal,
                           .message = "The server failed to answer this request; its log has more.",
                           .param = {}};
  return error;
}

}  // namespace

Exchange::Exchange(ByteSink& sink, AnswerForm form) : sink_(sink), form_(std::move(form)) {}

std::string Exchange::Head(int status, std::string_view headers) const {
  return fmt::format(
      "HTTP/1.1 {} {}\r\n"
      "Server: emberbank\r\n"
      "X-Request-Id: {}\r\n"
      "X-Content-Type-Options: nosniff\r\n"
      "Connection: {}\r\n"
      "{}\r\n",
      status, ReasonPhrase(status), form_.request_id, form_.keep_alive ? "keep-alive" : "close",
      headers);
}

void Exchange::SendBody(int status, std::string_view content_type, std::string_view body,
                        std::string_view extra_headers) {
  if (std::exchange(state_, State::kDone) != State::kNothing) {
    return;
  }
  status_ = status;
  std::string bytes = Head(status, fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n{}",
                                               content_type, body.size(), extra_headers));
  if (!form_.is_head) {
    bytes += body;
  }
  WriteBytes(bytes);
}

void Exchange::SendJson(int status, const Json& body) {
  SendBody(status, "application/json", DumpJson(body), {});
}

void Exchange::SendText(int status, std::string_view content_type, std::string_view body) {
  SendBody(status, content_type, body, {});
}

void Exchange::SendError(const Error& error) { SendErrorWith(HttpStatus(error.code), error, {}); }

void Exchange::SendErrorWith(int status, const Error& error, std::string_view allow) {
  std::string headers;
  if (const int seconds = RetryAfterSeconds(error.code); seconds > 0) {
    headers += fmt::format("Retry-After: {}\r\n", seconds);
  }
  if (error.code == ErrorCode::kUnauthorized) {
    headers += "WWW-Authenticate: Bearer\r\n";
  }
  if (!allow.empty()) {
    headers += fmt::format("Allow: {}\r\n", allow);
  }
  SendBody(status, "application/json", DumpJson(api::ErrorBody(form_.path, error)), headers);
  is_cut_off_ = is_cut_off_ || error.code == ErrorCode::kCancelled;
}

void Exchange::SendEmpty(int status, std::string_view allow) {
  if (std::exchange(state_, State::kDone) != State::kNothing) {
    return;
  }
  status_ = status;
  WriteBytes(Head(status, allow.empty() ? "" : fmt::format("Allow: {}\r\n", allow)));
}

void Exchange::BeginEvents() {
  if (std::exchange(state_, State::kEvents) != State::kNothing) {
    return;
  }
  status_ = 200;
  if (form_.is_http10) {
    form_.keep_alive = false;  // the end of the body is the end of the connection
  }
  WriteBytes(Head(200, fmt::format("Content-Type: text/event-stream; charset=utf-8\r\n"
                                   "Cache-Control: no-cache\r\n"
                                   "X-Accel-Buffering: no\r\n"
                                   "{}",
                                   form_.is_http10 ? "" : "Transfer-Encoding: chunked\r\n")));
}

void Exchange::WriteBytes(std::string_view bytes) {
  if (!sink_.Write(bytes)) {
    is_cut_off_ = true;
  }
}

void Exchange::WriteEventBytes(std::string_view bytes) {
  if (state_ != State::kEvents || form_.is_head) {
    return;
  }
  is_cut_off_ = is_cut_off_ || sink_.gone();
  if (form_.is_http10) {
    WriteBytes(bytes);
  } else {
    WriteBytes(FormatChunk(bytes));
  }
}

void Exchange::SendEvent(std::string_view data) { WriteEventBytes(FormatEvent({}, data)); }

void Exchange::SendNamedEvent(std::string_view name, std::string_view data) {
  WriteEventBytes(FormatEvent(name, data));
}

void Exchange::KeepAlive() { WriteEventBytes(kKeepAliveComment); }

void Exchange::EndEvents() {
  if (state_ != State::kEvents) {
    return;
  }
  state_ = State::kDone;
  if (!form_.is_http10 && !form_.is_head) {
    // A client that leaves before this one has read all there was: the events tell their own end.
    (void)sink_.Write(kLastChunk);
  }
}

void Exchange::SendFailure() {
  if (state_ == State::kNothing) {
    SendError(Failure());
  } else if (state_ == State::kEvents) {
    // No last chunk: the client must not take this for the end.
    SendNamedEvent(api::ErrorEventName(form_.path),
                   DumpJson(api::ErrorBody(form_.path, Failure())));
    state_ = State::kDone;
    form_.keep_alive = false;
  }
}

void Exchange::Finish() {
  if (state_ != State::kDone) {
    is_cut_off_ = is_cut_off_ || sink_.gone();
    SendFailure();
  }
}

}  // namespace http
