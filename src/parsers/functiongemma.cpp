#include "parsers/shared_brace_call.h"
#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"

namespace parsers::functiongemma {
namespace {

// <start_function_call>call:NAME{key:<escape>text<escape>,other:3}<end_function_call>
constexpr BraceCallSyntax kBraces{.quote = "<escape>", .closer = "<end_function_call>"};

Task<bool> ReadCall(CallContext& context) { return ReadBraceCall(context, kBraces); }

constexpr CallOpener kOpeners[] = {{.literal = "<start_function_call>call:", .read = &ReadCall}};
constexpr std::string_view kEndTokens[] = {"<end_of_turn>", "<eos>", "<start_function_response>"};
constexpr std::string_view kAliases[] = {"function_gemma", "gemma_function"};
constexpr std::string_view kMarkers[] = {"<start_function_call>", "<end_function_call>",
                                         "<escape>"};
constexpr Syntax kSyntax{.openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<start_function_call>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return BraceCall(grammar, tool, kBraces.quote);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<start_function_call>",
          .opener = "<start_function_call>call:",
          .separator = "<end_function_call><start_function_call>call:",
          .closer = "<end_function_call>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "functiongemma",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls};

}  // namespace parsers::functiongemma
