#include "parsers/shared_brace_call.h"
#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"

namespace parsers::gemma4 {
namespace {

// <|tool_call>call:NAME{key:<|"|>text<|"|>,other:3}<tool_call|>
constexpr BraceCallSyntax kBraces{.quote = "<|\"|>", .closer = "<tool_call|>"};
constexpr ReasoningTags kReasoning[] = {{"<|channel>thought", "<channel|>"}};

Task<bool> ReadCall(CallContext& context) { return ReadBraceCall(context, kBraces); }

constexpr CallOpener kOpeners[] = {{.literal = "<|tool_call>call:", .read = &ReadCall},
                                   // the outer token lost on the way
                                   {.literal = "call:", .read = &ReadCall, .only_at_start = true}};
constexpr std::string_view kEndTokens[] = {"<turn|>", "<eos>", "<|tool_response>"};
constexpr std::string_view kMarkers[] = {"<|tool_call>", "<tool_call|>", "<|\"|>", "<|channel>",
                                         "<channel|>"};
constexpr Syntax kSyntax{.reasoning = kReasoning, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<|tool_call>call:") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return BraceCall(grammar, tool, kBraces.quote);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<|tool_call>",
          .opener = "<|tool_call>call:",
          .separator = "<tool_call|><|tool_call>call:",
          .closer = "<tool_call|>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "gemma4",

                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kReasoning};

}  // namespace parsers::gemma4
