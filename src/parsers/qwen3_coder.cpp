#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_tagged_call.h"

namespace parsers::qwen3_coder {
namespace {

// <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>, a line each.
Task<bool> ReadWrapped(CallContext& context) {
  return ReadWrappedCall(context, kCoderTags, "</tool_call>");
}

// Models forget the wrapper.
Task<bool> ReadBare(CallContext& context) {
  context.in.Rewind(context.in.Mark() - kCoderTags.name_opener.size());
  return ReadWrapped(context);
}

constexpr CallOpener kOpeners[] = {{.literal = "<tool_call>", .read = &ReadWrapped},
                                   {.literal = "<function=", .read = &ReadBare}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>"};
constexpr std::string_view kAliases[] = {"qwen3_xml", "qwen3coder", "qwen3_5", "qwen3_next_coder"};
constexpr std::string_view kMarkers[] = {"<tool_call>", "</tool_call>", "<think>", "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<function=") != std::string_view::npos &&
         chat_template.find("seed:tool_call") == std::string_view::npos &&
         chat_template.find("<TOOLCALL>") == std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

constexpr CallTagTexts kTexts{.name_opener = "<function=",
                              .name_closer = ">\n",
                              .parameter_opener = "<parameter=",
                              .parameter_closer = ">\n",
                              .before_closer = "\n",
                              .value_closer = "</parameter>",
                              .after_closer = "\n",
                              .call_closer = "</function>"};

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return TaggedCall(grammar, tool, kTexts);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<tool_call>",
          .opener = "<tool_call>\n",
          .separator = "\n</tool_call>\n<tool_call>\n",
          .closer = "\n</tool_call>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "qwen3_coder",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::qwen3_coder
