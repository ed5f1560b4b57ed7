#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_python_call.h"

namespace parsers::lfm2 {
namespace {

// <|tool_call_start|>[f(a=1), g()]<|tool_call_end|>; JSON where the system message asks for it.
Task<bool> ReadCalls(CallContext& context) {
  Scanner& in = context.in;
  co_await in.SkipSpace();
  const std::size_t mark = in.Mark();
  bool called = co_await ReadPythonList(context);
  if (!called) {
    in.Rewind(mark);
    called = co_await ReadJsonCalls(context);
  }
  if (called) {
    (void)co_await in.AcceptAfterSpace("<|tool_call_end|>");
  }
  co_return called;
}

constexpr CallOpener kOpeners[] = {{.literal = "<|tool_call_start|>", .read = &ReadCalls}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>"};
constexpr std::string_view kMarkers[] = {"<|tool_call_start|>", "<|tool_call_end|>", "<think>",
                                         "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<|tool_list_start|>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return PythonCallText(grammar, tool);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<|tool_call_start|>",
          .opener = "<|tool_call_start|>[",
          .separator = ", ",
          .closer = "]<|tool_call_end|>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "lfm2",

                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::lfm2
