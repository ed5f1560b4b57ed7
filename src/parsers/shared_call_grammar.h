#pragma once

#include <string>
#include <string_view>

#include "parsers/shared_grammar_writer.h"

namespace parsers {

// The ways in which formats write a call, as expressions of a grammar. Arguments outside JSON
// (tags, Python, braces) keep types, enums, constants and what is required; other keywords for such
// texts are not looked at.

// The schema of a tool's arguments, which is that of an object. Where the tool does not say
// whether there may be other properties there are none.
[[nodiscard]] Json ArgumentsSchema(const chat::ToolSpec& tool);

// The arguments as a JSON object.
[[nodiscard]] std::string JsonArguments(const GrammarWriter& grammar, const chat::ToolSpec& tool);

// {"name": NAME, "arguments": {...}}; `key`: "arguments" or "parameters".
[[nodiscard]] std::string JsonCall(GrammarWriter& grammar, const chat::ToolSpec& tool,
                                   std::string_view key = "arguments");
// The same, with a line break before and behind it and `closer` after that.
[[nodiscard]] std::string JsonCallInTags(GrammarWriter& grammar, const chat::ToolSpec& tool,
                                         std::string_view closer);

// As CallTags, with the white space that the format's models write.
struct CallTagTexts {
  std::string_view name_opener;       // <function=
  std::string_view name_closer;       // >, line break
  std::string_view parameter_opener;  // <parameter=
  std::string_view parameter_closer;  // >, line break
  std::string_view before_closer;     // line break
  std::string_view value_closer;      // </parameter>
  std::string_view after_closer;      // line break
  std::string_view call_closer;       // </function>
  bool attributes = false;            // string="true" or "false" stands before parameter_closer
};
[[nodiscard]] std::string TaggedCall(GrammarWriter& grammar, const chat::ToolSpec& tool,
                                     const CallTagTexts& tags);

// NAME(key=value, ...)
[[nodiscard]] std::string PythonCallText(GrammarWriter& grammar, const chat::ToolSpec& tool);

// NAME{key:value,...}, strings between two `quote`s, keys in alphabetical order as Gemma's template
// shows them.
[[nodiscard]] std::string BraceCall(GrammarWriter& grammar, const chat::ToolSpec& tool,
                                    std::string_view quote);

// The form of Hermes and its relatives.
[[nodiscard]] CallForm TaggedJsonForm();

}  // namespace parsers
