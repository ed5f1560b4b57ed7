#include <algorithm>
#include <optional>
#include <string>

#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::hunyuan {
namespace {

// <tool_calls>[{"name": ..., "arguments": {...}}]</tool_calls>, or <tool_call>NAME<tool_sep>...

// NAME<tool_sep>, then the arguments, perhaps in a ```json fence.
Task<bool> ReadNamed(CallContext& context) {
  Scanner& in = context.in;
  const std::optional<std::string> text = co_await in.ReadUntil("<tool_sep>");
  if (!text) {
    co_return false;
  }
  const std::string name = text->substr(std::min(text->find_first_not_of(" \n"), text->size()));
  (void)co_await in.AcceptAfterSpace("```json");
  const bool called = context.Tool(name) != nullptr && co_await ReadNamedCall(context, name);
  if (called) {
    (void)co_await in.AcceptAfterSpace("```");
    (void)co_await in.AcceptAfterSpace("</tool_call>");
    (void)co_await in.AcceptAfterSpace("</tool_calls>");
  }
  co_return called;
}

Task<bool> ReadSection(CallContext& context) {
  Scanner& in = context.in;
  const bool named = co_await in.AcceptAfterSpace("<tool_call>");
  if (named) {
    co_return co_await ReadNamed(context);
  }
  const bool called = co_await ReadJsonCalls(context);
  if (called) {
    (void)co_await in.AcceptAfterSpace("</tool_calls>");
  }
  co_return called;
}

// The answer may stand in tags of its own.
Task<bool> ReadHunyuan(CallContext& context, const Syntax& syntax) {
  co_await ReadReasoning(context, syntax);
  (void)co_await context.in.AcceptAfterSpace("<answer>");
  (void)co_await context.in.Accept("\n");
  co_return co_await ReadContent(context, syntax);
}

constexpr CallOpener kOpeners[] = {{.literal = "<tool_calls>", .read = &ReadSection},
                                   {.literal = "<tool_call>", .read = &ReadNamed}};
constexpr std::string_view kEndTokens[] = {
    "</answer>", "<|eos|>", "<|hy_place\u2581holder\u2581no\u25812|>", "<|endoftext|>"};
constexpr std::string_view kAliases[] = {"hunyuan_a13b", "hunyuan_v1_dense"};
constexpr std::string_view kMarkers[] = {"<tool_calls>", "</tool_calls>", "<tool_call>",
                                         "</tool_call>", "<tool_sep>",    "<think>",
                                         "</think>",     "<answer>",      "</answer>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<tool_sep>") != std::string_view::npos ||
         (chat_template.find("<tool_calls>") != std::string_view::npos &&
          chat_template.find("<answer>") != std::string_view::npos);
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options, &ReadHunyuan);
}

std::string ListedCall(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return JsonCall(grammar, tool);
}

std::string NamedCall(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return grammar.Text("<tool_call>" + tool.name + "<tool_sep>\n```json\n") + " " +
         JsonArguments(grammar, tool) + " " + grammar.Text("\n```\n</tool_call>");
}

// Models with a separator of their own use it.
CallForm Calls(const GrammarWriter& grammar) {
  if (grammar.HasToken("<tool_sep>")) {
    return {.trigger = "<tool_calls>",
            .opener = "<tool_calls>",
            .separator = "\n",
            .closer = "</tool_calls>",
            .call = &NamedCall};
  }
  return {.trigger = "<tool_calls>",
          .opener = "<tool_calls>[",
          .separator = ", ",
          .closer = "]</tool_calls>",
          .call = &ListedCall};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "hunyuan",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::hunyuan
