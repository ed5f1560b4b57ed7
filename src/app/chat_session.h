#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "app/http_client.h"
#include "app/options.h"
#include "base/json.h"
#include "base/result.h"

namespace app {

// A talk with a server: the messages so far, and one request a turn.
class ChatSession {
 public:
  ChatSession(ServerUrl url, const ChatOptions& options);

  // Asks the server for its model. Error: one sentence with the address.
  [[nodiscard]] Result<void> Connect();
  [[nodiscard]] const std::string& model() const { return model_; }

  // Sends a user's message; `print` gets the reply's text as it comes. A reply that was cancelled
  // stays in the history as far as it came; a message that failed does not.
  [[nodiscard]] Result<void> Say(const std::string& text,
                                 const std::function<void(std::string_view)>& print,
                                 const std::function<bool()>& cancelled);

  void Reset();
  // Of the last reply, one line.
  [[nodiscard]] std::string Stats() const;

 private:
  [[nodiscard]] Json MakeBody() const;

  ServerUrl url_;
  ChatOptions options_;
  std::string model_;
  Json messages_ = Json::array();
  Json usage_;    // of the last reply; null before it and when it was stopped
  Json timings_;  // likewise
};

// Splits a stream of server-sent events into their data, whatever the pieces.
class EventSplitter {
 public:
  void Feed(std::string_view piece, const std::function<void(const std::string&)>& on_data);

 private:
  std::string line_;
};

}  // namespace app
