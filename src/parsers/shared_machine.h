#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "parsers/parser.h"
#include "parsers/shared_output.h"
#include "parsers/shared_scanner.h"

namespace parsers {

// What the readers of calls work with.
struct CallContext {
  Scanner& in;
  Output& out;
  const ParserOptions& options;
  bool cut = false;  // known once the text has ended: by max_tokens, not by the model

  // The tool of that name; nullptr when it is not offered.
  [[nodiscard]] const chat::ToolSpec* Tool(std::string_view name) const;
};

// How a call may begin, and what reads it. `read` is called behind `literal`; it reads the call and
// puts it out, or puts out nothing and gives false: then the text is text. Once it has begun a call
// in the output, that call stays.
struct CallOpener {
  std::string_view literal;
  Task<bool> (*read)(CallContext& context);
  bool only_at_start = false;  // nothing but reasoning and white space before it, or another call
};

// A wire format that is text with marked blocks of reasoning and of calls in it.
struct Syntax {
  std::span<const ReasoningTags> reasoning{};
  std::span<const CallOpener> openers{};
  std::span<const std::string_view> end_tokens{};  // dropped at the end of the text
  std::size_t id_length = 24;                      // of call ids
};

// Reads a whole message of such a format. Rules that hold for all of them:
// - a reasoning opener counts at the beginning only, or where the prompt has opened it; the first
//   closer wins; a call inside a block that is never closed is a call, in a closed one it is
//   reasoning;
// - a marker without a well-formed call of an offered tool behind it is text, as is one in quotes.
Task<bool> ReadMessage(CallContext& context, const Syntax& syntax);
// Its two halves.
Task<bool> ReadReasoning(CallContext& context, const Syntax& syntax);
Task<bool> ReadContent(CallContext& context, const Syntax& syntax);

// The parser that runs ReadMessage.
[[nodiscard]] std::unique_ptr<StreamParser> MakeMachine(const Syntax& syntax,
                                                        const ParserOptions& options);
// The parser that runs a reader of its own.
using MessageReader = Task<bool> (*)(CallContext& context, const Syntax& syntax);
[[nodiscard]] std::unique_ptr<StreamParser> MakeMachine(const Syntax& syntax,
                                                        const ParserOptions& options,
                                                        MessageReader reader);

inline constexpr ReasoningTags kThinkTags[] = {{"<think>", "</think>"}};

}  // namespace parsers
