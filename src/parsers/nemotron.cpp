#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_tagged_call.h"

namespace parsers::nemotron {
namespace {

// <TOOLCALL>[{"name": ..., "arguments": {...}}]</TOOLCALL>; newer models write Qwen3-Coder's tags.
Task<bool> ReadList(CallContext& context) { return ReadWrappedJsonCalls(context, "</TOOLCALL>"); }

Task<bool> ReadTags(CallContext& context) {
  return ReadWrappedCall(context, kCoderTags, "</tool_call>");
}

constexpr CallOpener kOpeners[] = {{.literal = "<TOOLCALL>", .read = &ReadList},
                                   {.literal = "<tool_call>", .read = &ReadTags}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>",
                                           "<SPECIAL_12>", "</s>"};
constexpr std::string_view kAliases[] = {"nemotron_json", "nemotron_v3", "llama_nemotron_json"};
constexpr std::string_view kMarkers[] = {"<tool_call>", "</tool_call>", "<think>", "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<TOOLCALL>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return JsonCall(grammar, tool);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<TOOLCALL>",
          .opener = "<TOOLCALL>[",
          .separator = ", ",
          .closer = "]</TOOLCALL>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "nemotron",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::nemotron
