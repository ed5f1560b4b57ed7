#include "parsers/shared_minimax.h"

#include "parsers/shared_call_grammar.h"
#include "parsers/shared_tagged_call.h"

namespace parsers {
namespace {

constexpr CallTags kTags{.name_opener = "<invoke name=\"",
                         .name_closer = "\">",
                         .parameter_opener = "<parameter name=\"",
                         .parameter_closer = "\">",
                         .value_opener = "",
                         .value_closer = "</parameter>",
                         .call_closer = "</invoke>",
                         .newlines_belong_to_tags = true};

Task<bool> ReadInvokes(CallContext& context) {
  return ReadWrappedCalls(context, kTags, "</minimax:tool_call>");
}

constexpr CallOpener kOpeners[] = {{.literal = "<minimax:tool_call>", .read = &ReadInvokes}};
constexpr std::string_view kEndTokens[] = {"[e~["};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

constexpr CallTagTexts kTexts{.name_opener = "<invoke name=\"",
                              .name_closer = "\">\n",
                              .parameter_opener = "<parameter name=\"",
                              .parameter_closer = "\">",
                              .before_closer = "",
                              .value_closer = "</parameter>",
                              .after_closer = "\n",
                              .call_closer = "</invoke>\n"};

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return TaggedCall(grammar, tool, kTexts);
}

}  // namespace

CallForm MinimaxCalls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<minimax:tool_call>",
          .opener = "<minimax:tool_call>\n",
          .closer = "</minimax:tool_call>",
          .call = &CallText};
}

const Syntax& MinimaxSyntax() { return kSyntax; }

}  // namespace parsers
