#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::hermes {
namespace {

// <tool_call>{"name": ..., "arguments": {...}}</tool_call>
Task<bool> ReadCall(CallContext& context) { return ReadWrappedJsonCalls(context, "</tool_call>"); }

constexpr CallOpener kOpeners[] = {{.literal = "<tool_call>", .read = &ReadCall}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>", "<|end_of_text|>",
                                           "</s>"};
constexpr std::string_view kAliases[] = {
    "qwen", "qwen3", "qwen2", "reasoning_think", "deepseek_r1_distill", "smollm3"};
constexpr std::string_view kMarkers[] = {"<tool_call>", "</tool_call>", "<think>", "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<tool_call>") != std::string_view::npos &&
         chat_template.find("<function=") == std::string_view::npos &&
         chat_template.find("<arg_key>") == std::string_view::npos &&
         chat_template.find("<|tool_call|>") == std::string_view::npos &&
         chat_template.find("<TOOLCALL>") == std::string_view::npos &&
         chat_template.find("tool_sep") == std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

CallForm Calls(const GrammarWriter& /*grammar*/) { return TaggedJsonForm(); }

}  // namespace

extern constinit const ParserFormat kFormat{.name = "hermes",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::hermes
