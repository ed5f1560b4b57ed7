#include <optional>
#include <string>

#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::kimi_k2 {
namespace {

constexpr std::string_view kCallBegin = "<|tool_call_begin|>";
constexpr std::string_view kArguments = "<|tool_call_argument_begin|>";
constexpr std::string_view kPrefix = "functions.";

// functions.NAME:INDEX<|tool_call_argument_begin|>ARGUMENTS<|tool_call_end|>
Task<bool> ReadCall(CallContext& context) {
  Scanner& in = context.in;
  const std::optional<std::string> text = co_await in.ReadUntil(kArguments);
  if (!text) {
    co_return false;
  }
  const std::string id(Trimmed(*text));
  std::string name = id.substr(0, id.rfind(':'));
  if (context.Tool(name) == nullptr && name.starts_with(kPrefix)) {
    name.erase(0, kPrefix.size());
  }
  const bool called = context.Tool(name) != nullptr && co_await ReadNamedCall(context, name, id);
  if (called) {
    (void)co_await in.AcceptAfterSpace("<|tool_call_end|>");
    (void)co_await in.AcceptAfterSpace("<|tool_calls_section_end|>");
  }
  co_return called;
}

Task<bool> ReadSection(CallContext& context) {
  const bool opens = co_await context.in.AcceptAfterSpace(kCallBegin);
  co_return opens&& co_await ReadCall(context);
}

constexpr CallOpener kOpeners[] = {
    {.literal = "<|tool_calls_section_begin|>", .read = &ReadSection},
    {.literal = kCallBegin, .read = &ReadCall}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "[EOS]"};
constexpr std::string_view kAliases[] = {"kimi", "kimi_k2_thinking"};
constexpr std::string_view kMarkers[] = {"<|tool_calls_section_begin|>",
                                         "<|tool_calls_section_end|>",
                                         "<|tool_call_begin|>",
                                         "<|tool_call_argument_begin|>",
                                         "<|tool_call_end|>",
                                         "<think>",
                                         "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<|tool_calls_section_begin|>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return grammar.Text(std::string(kCallBegin) + std::string(kPrefix) + tool.name + ":") +
         " /[0-9]{1,3}/ " + grammar.Text(kArguments) + " " + JsonArguments(grammar, tool) + " " +
         grammar.Text("<|tool_call_end|>");
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<|tool_calls_section_begin|>",
          .opener = "<|tool_calls_section_begin|>",
          .closer = "<|tool_calls_section_end|>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "kimi_k2",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::kimi_k2
