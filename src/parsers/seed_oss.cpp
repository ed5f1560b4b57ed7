#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_tagged_call.h"

namespace parsers::seed_oss {
namespace {

// Qwen3-Coder's tags in a wrapper of its own.
constexpr CallTags kTags = [] {
  CallTags tags = kCoderTags;
  tags.newlines_belong_to_tags = false;  // values stand inline
  tags.call_closer_ends_value = false;
  return tags;
}();
constexpr ReasoningTags kReasoning[] = {{"<seed:think>", "</seed:think>"}};

Task<bool> ReadCall(CallContext& context) {
  return ReadWrappedCall(context, kTags, "</seed:tool_call>");
}

constexpr CallOpener kOpeners[] = {{.literal = "<seed:tool_call>", .read = &ReadCall}};
constexpr std::string_view kEndTokens[] = {"<seed:eos>"};
constexpr std::string_view kAliases[] = {"seed"};
constexpr std::string_view kMarkers[] = {"<seed:tool_call>", "</seed:tool_call>", "<seed:think>",
                                         "</seed:think>"};
constexpr Syntax kSyntax{.reasoning = kReasoning, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<seed:tool_call>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

constexpr CallTagTexts kTexts{.name_opener = "<function=",
                              .name_closer = ">\n",
                              .parameter_opener = "<parameter=",
                              .parameter_closer = ">",
                              .before_closer = "",
                              .value_closer = "</parameter>",
                              .after_closer = "\n",
                              .call_closer = "</function>"};

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return TaggedCall(grammar, tool, kTexts);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<seed:tool_call>",
          .opener = "<seed:tool_call>\n",
          .separator = "\n</seed:tool_call>\n<seed:tool_call>\n",
          .closer = "\n</seed:tool_call>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "seed_oss",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kReasoning};

}  // namespace parsers::seed_oss
