#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "api/reply.h"

namespace http {

// Where the bytes of an answer go: a connection, or a string in tests.
class ByteSink {
 public:
  ByteSink() = default;
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;
  virtual ~ByteSink() = default;

  // Returns true when all bytes are handed to the system; false, at once, when the client has left.
  virtual bool Write(std::string_view bytes) = 0;
  [[nodiscard]] virtual bool gone() const = 0;
};

// What the head of an answer depends on.
struct AnswerForm {
  std::string path = {};  // whose protocol words errors
  std::string request_id = {};
  bool is_head = false;    // no body
  bool is_http10 = false;  // no chunks
  bool keep_alive = true;  // the connection may serve another request afterwards
};

// One request's answer as HTTP/1.1 bytes.
class Exchange final : public api::Reply {
 public:
  Exchange(ByteSink& sink, AnswerForm form);

  void SendJson(int status, const Json& body) override;
  void SendText(int status, std::string_view content_type, std::string_view body) override;
  void SendError(const Error& error) override;
  void BeginEvents() override;
  void SendEvent(std::string_view data) override;
  void SendNamedEvent(std::string_view name, std::string_view data) override;
  void KeepAlive() override;
  void EndEvents() override;
  void ReportUsage(const api::Usage& usage) override { usage_ = usage; }
  [[nodiscard]] bool client_gone() const override { return sink_.gone(); }

  // For what the server answers by itself. `allow`: value of the Allow header, or empty.
  void SendErrorWith(int status, const Error& error, std::string_view allow);
  void SendEmpty(int status, std::string_view allow);
  // The handler has failed: 500, or an error event where a stream had begun.
  void SendFailure();
  // The handler has returned: what it left open becomes an error.
  void Finish();

  [[nodiscard]] int status() const { return status_; }
  // The client left before its answer was complete.
  [[nodiscard]] bool is_cut_off() const { return is_cut_off_; }
  [[nodiscard]] bool keep_alive() const { return form_.keep_alive; }
  [[nodiscard]] const std::optional<api::Usage>& usage() const { return usage_; }

 private:
  enum class State { kNothing, kEvents, kDone };

  void SendBody(int status, std::string_view content_type, std::string_view body,
                std::string_view extra_headers);
  void WriteBytes(std::string_view bytes);
  void WriteEventBytes(std::string_view bytes);
  [[nodiscard]] std::string Head(int status, std::string_view headers) const;

  ByteSink& sink_;
  AnswerForm form_;
  State state_ = State::kNothing;
  int status_ = 0;
  bool is_cut_off_ = false;
  std::optional<api::Usage> usage_;
};

}  // namespace http
