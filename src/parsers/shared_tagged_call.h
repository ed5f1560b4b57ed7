#pragma once

#include <string>
#include <string_view>

#include "parsers/shared_machine.h"

namespace parsers {

// How a format writes a call whose parameters stand in tags. Values are raw text: no escapes, no
// entities; where one ends is decided by what follows its closer.
struct CallTags {
  std::string_view name_opener;          // "<function="; empty: the name comes at once
  std::string_view name_closer;          // ">"; empty: the name ends at a line break or a tag
  std::string_view parameter_opener;     // "<parameter="
  std::string_view parameter_closer;     // ">", behind the parameter's name
  std::string_view value_opener;         // "<arg_value>", behind it after white space; or empty
  std::string_view value_closer;         // "</parameter>"
  std::string_view call_closer;          // "</function>"
  bool attributes = false;               // string="true" or "false" follows the parameter's name
  bool newlines_belong_to_tags = false;  // one at either end of a value
  bool call_closer_ends_value = false;   // on a line of its own, as does a new parameter
};

// Reads a call, at its name's opener, and puts it out: string parameters as they come, others when
// they are complete, typed by the tool's schema.
Task<bool> ReadTaggedCall(CallContext& context, const CallTags& tags);

// The inside of a wrapper: one call, or several, and the wrapper's closer where it is there.
Task<bool> ReadWrappedCall(CallContext& context, const CallTags& tags, std::string_view closer);
Task<bool> ReadWrappedCalls(CallContext& context, const CallTags& tags, std::string_view closer);

// The XML of Qwen3-Coder, also inside other wrappers.
inline constexpr CallTags kCoderTags{.name_opener = "<function=",
                                     .name_closer = ">",
                                     .parameter_opener = "<parameter=",
                                     .parameter_closer = ">",
                                     .value_opener = "",
                                     .value_closer = "</parameter>",
                                     .call_closer = "</function>",
                                     .newlines_belong_to_tags = true,
                                     .call_closer_ends_value = true};

}  // namespace parsers
