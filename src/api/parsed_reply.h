#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "chat/stream_event.h"
#include "parsers/parser.h"

namespace api {

struct ServedModel;

// What a parser understood of a whole reply.
struct ParsedReply {
  std::string content{};
  std::string reasoning{};
  std::vector<chat::ToolCall> calls{};  // arguments as JSON text

  void Take(const chat::StreamEvent& event);
};

// Names and arguments of calls as text that is the same however a client writes them: keys sorted,
// numbers by their value (5000.0 is 5000). Text that is no JSON stays as it is.
[[nodiscard]] std::string CanonicalCalls(const std::vector<chat::ToolCall>& calls);

// Do both say the same? Ids of calls do not count.
[[nodiscard]] bool SameMeaning(const ParsedReply& one, const ParsedReply& other);

// The end of a prompt that tells a parser whether a think block is open.
inline constexpr std::size_t kPromptTailBytes = 256;

// The parser of what the model writes behind a prompt that ends so.
[[nodiscard]] std::unique_ptr<parsers::StreamParser> MakeParser(
    const ServedModel& model, const std::vector<chat::ToolSpec>& tools,
    std::string_view prompt_tail);

}  // namespace api
