#include "app/chat_session.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace app {
namespace {

// The text at `path` in `json`, or "".
std::string TextAt(const Json& json, const char* path) {
  const Json::json_pointer pointer(path);
  if (!json.contains(pointer) || !json.at(pointer).is_string()) {
    return {};
  }
  return json.at(pointer).get<std::string>();
}

std::int64_t WholeAt(const Json& json, const char* path) {
  const Json::json_pointer pointer(path);
  return json.contains(pointer) && json.at(pointer).is_number_integer()
             ? json.at(pointer).get<std::int64_t>()
             : 0;
}

double NumberAt(const Json& json, const char* path) {
  const Json::json_pointer pointer(path);
  return json.contains(pointer) && json.at(pointer).is_number() ? json.at(pointer).get<double>()
                                                                : 0;
}

Error ErrorOf(const HttpAnswer& answer) {
  const Result<Json> body = ParseJson(answer.body);
  const std::string message = body ? TextAt(*body, "/error/message") : std::string();
  return {.code = ErrorCode::kIo,
          .message = message.empty()
                         ? fmt::format("The server answered with status {}.", answer.status)
                         : message,
          .param = {}};
}

}  // namespace

void EventSplitter::Feed(std::string_view piece,
                         const std::function<void(const std::string&)>& on_data) {
  constexpr std::string_view kData = "data:";
  for (const char c : piece) {
    if (c != '\n') {
      line_ += c;
      continue;
    }
    if (line_.ends_with('\r')) {
      line_.pop_back();
    }
    if (line_.starts_with(kData)) {
      const std::size_t space = line_.size() > kData.size() && line_[kData.size()] == ' ' ? 1 : 0;
      on_data(line_.substr(kData.size() + space));
    }
    line_.clear();
  }
}

ChatSession::ChatSession(ServerUrl url, const ChatOptions& options)
    : url_(std::move(url)), options_(options) {
  Reset();
}

Result<void> ChatSession::Connect() {
  const Result<HttpAnswer> answer =
      Call(url_, {.path = "/v1/models", .api_key = options_.api_key}, {}, {});
  if (!answer) {
    return Fail(answer.error());
  }
  if (answer->status != 200) {
    return Fail(ErrorOf(*answer));
  }
  const Result<Json> body = ParseJson(answer->body);
  model_ = body ? TextAt(*body, "/data/0/id") : std::string();
  if (model_.empty()) {
    return Fail(ErrorCode::kIo, fmt::format("{}:{} names no model.", url_.host, url_.port));
  }
  return {};
}

void ChatSession::Reset() {
  messages_ = Json::array();
  if (!options_.system.empty()) {
    messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }
}

Json ChatSession::MakeBody() const {
  Json body = {{"model", model_},
               {"messages", messages_},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (options_.temperature) {
    body["temperature"] = *options_.temperature;
  }
  if (options_.max_tokens > 0) {
    body["max_tokens"] = options_.max_tokens;
  }
  return body;
}

Result<void> ChatSession::Say(const std::string& text,
                              const std::function<void(std::string_view)>& print,
                              const std::function<bool()>& cancelled) {
  messages_.push_back({{"role", "user"}, {"content", text}});
  usage_ = nullptr;
  timings_ = nullptr;
  std::string content;
  std::optional<Error> failure;
  EventSplitter events;
  const auto on_data = [&](const std::string& data) {
    const Result<Json> event = data == "[DONE]" ? Result<Json>(Json::object()) : ParseJson(data);
    if (!event || event->contains("error")) {
      failure = Error{.code = ErrorCode::kIo,
                      .message = event ? TextAt(*event, "/error/message")
                                       : "The server sent an event that is no JSON.",
                      .param = {}};
      return;
    }
    print(TextAt(*event, "/choices/0/delta/reasoning_content"));
    const std::string delta = TextAt(*event, "/choices/0/delta/content");
    content += delta;
    print(delta);
    if (event->contains("usage") && !event->at("usage").is_null()) {
      usage_ = event->at("usage");
    }
    if (event->contains("timings")) {
      timings_ = event->at("timings");
    }
  };
  const Result<HttpAnswer> answer = Call(
      url_,
      {.method = "POST",
       .path = "/v1/chat/completions",
       .body = DumpJson(MakeBody()),
       .api_key = options_.api_key},
      [&](std::string_view piece) { events.Feed(piece, on_data); }, cancelled);
  if (!answer) {
    failure = answer.error();
  } else if (answer->status != 200 && !answer->cancelled) {
    failure = ErrorOf(*answer);
  }
  if (failure && content.empty()) {
    messages_.erase(messages_.size() - 1);
  } else {
    messages_.push_back({{"role", "assistant"}, {"content", content}});
  }
  return failure ? Result<void>(Fail(*failure)) : Result<void>();
}

std::string ChatSession::Stats() const {
  if (usage_.is_null()) {
    return "There are no numbers: no reply yet, or the last one was stopped.";
  }
  std::string line = fmt::format("prompt {} tokens ({} from cache), reply {} tokens",
                                 WholeAt(usage_, "/prompt_tokens"),
                                 WholeAt(usage_, "/prompt_tokens_details/cached_tokens"),
                                 WholeAt(usage_, "/completion_tokens"));
  if (!timings_.is_null()) {
    line += fmt::format("; prefill {:.1f} tok/s, decode {:.1f} tok/s",
                        NumberAt(timings_, "/prompt_per_second"),
                        NumberAt(timings_, "/predicted_per_second"));
  }
  return line;
}

}  // namespace app
