#pragma once

#include <string>
#include <variant>

namespace chat {

// What parsers make of a model's text, and all that protocols know of it.
struct TextDelta {
  std::string text;  // whole UTF-8 characters
};
struct ReasoningDelta {
  std::string text;
};
struct ToolCallBegin {
  int index = 0;
  std::string id;
  std::string name;
};
struct ToolArgumentsDelta {
  int index = 0;
  std::string fragment;  // fragments of one call concatenate to a JSON object
};
struct ToolCallEnd {
  int index = 0;
};

using StreamEvent =
    std::variant<TextDelta, ReasoningDelta, ToolCallBegin, ToolArgumentsDelta, ToolCallEnd>;

}  // namespace chat
