#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_tagged_call.h"

namespace parsers::deepseek_v32 {
namespace {

// DSML: tags with a string attribute, which says whether a value is text or JSON.
constexpr CallTags kTags{.name_opener = "<\uFF5CDSML\uFF5Cinvoke name=\"",
                         .name_closer = "\">",
                         .parameter_opener = "<\uFF5CDSML\uFF5Cparameter name=\"",
                         .parameter_closer = "\"",
                         .value_opener = "",
                         .value_closer = "</\uFF5CDSML\uFF5Cparameter>",
                         .call_closer = "</\uFF5CDSML\uFF5Cinvoke>",
                         .attributes = true};

Task<bool> ReadInvokes(CallContext& context) {
  return ReadWrappedCalls(context, kTags, "</\uFF5CDSML\uFF5Cfunction_calls>");
}

constexpr CallOpener kOpeners[] = {
    {.literal = "<\uFF5CDSML\uFF5Cfunction_calls>", .read = &ReadInvokes}};
constexpr std::string_view kEndTokens[] = {"<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
constexpr std::string_view kMarkers[] = {"\uFF5CDSML\uFF5C", "<think>", "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("\uFF5CDSML\uFF5C") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

constexpr CallTagTexts kTexts{.name_opener = "<\uFF5CDSML\uFF5Cinvoke name=\"",
                              .name_closer = "\">\n",
                              .parameter_opener = "<\uFF5CDSML\uFF5Cparameter name=\"",
                              .parameter_closer = ">",
                              .before_closer = "",
                              .value_closer = "</\uFF5CDSML\uFF5Cparameter>",
                              .after_closer = "\n",
                              .call_closer = "</\uFF5CDSML\uFF5Cinvoke>",
                              .attributes = true};

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return TaggedCall(grammar, tool, kTexts);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.trigger = "<\uFF5CDSML\uFF5Cfunction_calls>",
          .opener = "<\uFF5CDSML\uFF5Cfunction_calls>\n",
          .separator = "\n",
          .closer = "\n</\uFF5CDSML\uFF5Cfunction_calls>",
          .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "deepseek_v32",

                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::deepseek_v32
