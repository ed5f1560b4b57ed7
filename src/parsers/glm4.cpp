#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_tagged_call.h"

namespace parsers::glm4 {
namespace {

// <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...</tool_call>, with line
// breaks or without.
constexpr CallTags kTags{.name_opener = "",
                         .name_closer = "",
                         .parameter_opener = "<arg_key>",
                         .parameter_closer = "</arg_key>",
                         .value_opener = "<arg_value>",
                         .value_closer = "</arg_value>",
                         .call_closer = "</tool_call>"};

Task<bool> ReadCall(CallContext& context) { return ReadTaggedCall(context, kTags); }

constexpr CallOpener kOpeners[] = {{.literal = "<tool_call>", .read = &ReadCall}};
constexpr std::string_view kEndTokens[] = {"<|user|>", "<|observation|>", "<|endoftext|>"};
constexpr std::string_view kAliases[] = {"glm45", "glm46", "glm47", "glm4_moe", "glm4_moe_lite"};
constexpr std::string_view kMarkers[] = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>",
                                         "<arg_value>", "</arg_value>", "<think>",   "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<arg_key>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

constexpr CallTagTexts kTexts{.name_opener = "",
                              .name_closer = "\n",
                              .parameter_opener = "<arg_key>",
                              .parameter_closer = "</arg_key>\n<arg_value>",
                              .before_closer = "",
                              .value_closer = "</arg_value>",
                              .after_closer = "\n",
                              .call_closer = ""};

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return TaggedCall(grammar, tool, kTexts);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<tool_call>",
          .opener = "<tool_call>",
          .separator = "</tool_call>\n<tool_call>",
          .closer = "</tool_call>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "glm4",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::glm4
