#include "api/priority.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace api {
namespace {

using scheduler::Priority;

std::optional<Priority> OfText(std::string_view text) {
  if (text == "interactive" || text == "background") {
    return text == "background" ? Priority::kBackground : Priority::kInteractive;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number > 0 ? Priority::kBackground : Priority::kInteractive;
}

bool IsSideRequest(FieldReader& fields) {
  if (fields.Find("messages") == nullptr && fields.Find("input") == nullptr) {
    return false;  // a completion: an editor waits for it
  }
  if (const Json* tools = fields.Find("tools"); tools != nullptr && !tools->empty()) {
    return false;
  }
  for (const char* name : {"max_completion_tokens", "max_output_tokens", "max_tokens"}) {
    if (const auto limit = fields.Integer(name, kMaxTokens)) {
      return *limit <= kSmallReply;
    }
  }
  return false;
}

}  // namespace

Priority ReadPriority(FieldReader& fields, const ApiRequest& request) {
  const auto read = [&](const char* name, const std::string& text) {
    const std::optional<Priority> priority = OfText(text);
    if (!priority) {
      fields.FailField(name, fmt::format("must be \"interactive\", \"background\" or a whole "
                                         "number, got {}.",
                                         DumpJson(Json(text.substr(0, 40)))));
    }
    return priority.value_or(Priority::kInteractive);
  };
  if (const Json* field = fields.Find("priority")) {
    return read("priority", field->is_string() ? field->get<std::string>() : DumpJson(*field));
  }
  if (const auto header = request.headers.find("x-priority"); header != request.headers.end()) {
    return read("X-Priority", header->second);
  }
  return IsSideRequest(fields) ? Priority::kBackground : Priority::kInteractive;
}

}  // namespace api
