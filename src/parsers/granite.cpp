#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::granite {
namespace {

// <|tool_call|>[{"name": ..., "arguments": {...}}]; Granite 4 writes <tool_call> and one object.
Task<bool> ReadList(CallContext& context) { return ReadWrappedJsonCalls(context, "</tool_call>"); }

constexpr CallOpener kOpeners[] = {{.literal = "<|tool_call|>", .read = &ReadList},
                                   {.literal = "<tool_call>", .read = &ReadList}};
constexpr std::string_view kEndTokens[] = {"<|end_of_text|>", "<|end_of_role|>"};
constexpr std::string_view kAliases[] = {"granite3", "granite4", "granite-20b-fc"};
constexpr std::string_view kMarkers[] = {"<|tool_call|>", "<tool_call>", "</tool_call>", "<think>",
                                         "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<|tool_call|>") != std::string_view::npos &&
         chat_template.find("<|tool_call>call") == std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return JsonCall(grammar, tool);
}

CallForm Calls(const GrammarWriter& grammar) {
  if (!grammar.HasToken("<|tool_call|>")) {
    return TaggedJsonForm();
  }
  return {.trigger = "<|tool_call|>",
          .opener = "<|tool_call|>[",
          .separator = ", ",
          .closer = "]",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "granite",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::granite
