#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_python_call.h"

namespace parsers::llama3_pythonic {
namespace {

// [f(a=1), g()], in Llama 4 perhaps between <|python_start|> and <|python_end|>.
Task<bool> ReadList(CallContext& context) {
  co_await context.in.SkipSpace();
  const bool called = co_await ReadPythonList(context);
  if (called) {
    (void)co_await context.in.AcceptAfterSpace("<|python_end|>");
  }
  co_return called;
}

Task<bool> ReadBare(CallContext& context) {
  context.in.Rewind(context.in.Mark() - 1);  // the bracket
  return ReadList(context);
}

constexpr CallOpener kOpeners[] = {{.literal = "<|python_start|>", .read = &ReadList},
                                   {.literal = "[", .read = &ReadBare, .only_at_start = true}};
constexpr std::string_view kEndTokens[] = {"<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>",
                                           "<|end_of_text|>"};
constexpr std::string_view kAliases[] = {"pythonic", "llama4_pythonic", "llama4"};
constexpr std::string_view kMarkers[] = {"<|python_start|>", "<|python_end|>"};
constexpr Syntax kSyntax{.openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<|header_start|>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return PythonCallText(grammar, tool);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.opener = "[", .separator = ", ", .closer = "]", .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "llama3_pythonic",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls};

}  // namespace parsers::llama3_pythonic
