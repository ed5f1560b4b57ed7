#include <fmt/format.h>

#include <optional>
#include <string>

#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::deepseek_v3 {
namespace {

constexpr std::string_view kCallsBegin = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>";
constexpr std::string_view kCallsEnd = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>";
constexpr std::string_view kCallBegin = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>";
constexpr std::string_view kCallEnd = "<\uFF5Ctool\u2581call\u2581end\uFF5C>";
constexpr std::string_view kSeparator = "<\uFF5Ctool\u2581sep\uFF5C>";

// function<SEP>NAME, a line break, the arguments in a ```json fence; of V3.1 NAME<SEP>ARGUMENTS.
Task<bool> ReadCall(CallContext& context) {
  Scanner& in = context.in;
  std::optional<std::string> name = co_await in.ReadUntil(kSeparator);
  if (!name) {
    co_return false;
  }
  const bool fenced = *name == "function" && context.Tool(*name) == nullptr;
  if (fenced) {
    name = co_await in.ReadUntil("\n");
    if (!name) {
      co_return false;
    }
    (void)co_await in.AcceptAfterSpace("```json");
  }
  const bool called = context.Tool(*name) != nullptr && co_await ReadNamedCall(context, *name);
  if (called) {
    (void)co_await in.AcceptAfterSpace("```");
    (void)co_await in.AcceptAfterSpace(kCallEnd);
    (void)co_await in.AcceptAfterSpace(kCallsEnd);
  }
  co_return called;
}

Task<bool> ReadSection(CallContext& context) {
  const bool opens = co_await context.in.AcceptAfterSpace(kCallBegin);
  co_return opens&& co_await ReadCall(context);
}

// What the prompt's text asks for where the template has nothing for tools, as V3's.
Task<bool> ReadTagged(CallContext& context) {
  return ReadWrappedJsonCalls(context, "</tool_call>");
}

constexpr CallOpener kOpeners[] = {{.literal = kCallsBegin, .read = &ReadSection},
                                   {.literal = kCallBegin, .read = &ReadCall},
                                   {.literal = "<tool_call>", .read = &ReadTagged}};
constexpr std::string_view kEndTokens[] = {"<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
constexpr std::string_view kAliases[] = {"deepseek_r1", "deepseek_v31", "deepseek_v3_1",
                                         "deepseek"};
constexpr std::string_view kMarkers[] = {"<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
                                         "<\uFF5Ctool\u2581calls\u2581end\uFF5C>",
                                         "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
                                         "<\uFF5Ctool\u2581call\u2581end\uFF5C>",
                                         "<\uFF5Ctool\u2581sep\uFF5C>",
                                         "<think>",
                                         "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<\uFF5Ctool\u2581calls\u2581begin\uFF5C>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  // Either of the two ways of V3 and of V3.1.
  const std::string arguments = JsonArguments(grammar, tool);
  const std::string v3 = fmt::format("function{}{}\n```json\n", kSeparator, tool.name);
  const std::string v31 = fmt::format("{}{}", tool.name, kSeparator);
  return fmt::format(R"({} ({} {} "\n```" | {} {}) {})", grammar.Text(kCallBegin), grammar.Text(v3),
                     arguments, grammar.Text(v31), arguments, grammar.Text(kCallEnd));
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = kCallsBegin,
          .opener = kCallsBegin,
          .separator = "\n",
          .closer = kCallsEnd,
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "deepseek_v3",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::deepseek_v3
