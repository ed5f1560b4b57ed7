#include "parsers/shared_call_grammar.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_tagged_call.h"

namespace parsers::step3 {
namespace {

// Tags of its own inside DeepSeek's kind of section.
constexpr CallTags kTags{.name_opener = "<steptml:invoke name=\"",
                         .name_closer = "\">",
                         .parameter_opener = "<steptml:parameter name=\"",
                         .parameter_closer = "\">",
                         .value_opener = "",
                         .value_closer = "</steptml:parameter>",
                         .call_closer = "</steptml:invoke>"};

Task<bool> ReadCall(CallContext& context) {
  Scanner& in = context.in;
  (void)co_await in.AcceptAfterSpace("function");
  (void)co_await in.AcceptAfterSpace("<\uFF5Ctool_sep\uFF5C>");
  co_await in.SkipSpace();
  const bool called = co_await ReadTaggedCall(context, kTags);
  if (called) {
    (void)co_await in.AcceptAfterSpace("<\uFF5Ctool_call_end\uFF5C>");
    (void)co_await in.AcceptAfterSpace("<\uFF5Ctool_calls_end\uFF5C>");
  }
  co_return called;
}

Task<bool> ReadSection(CallContext& context) {
  const bool opens = co_await context.in.AcceptAfterSpace("<\uFF5Ctool_call_begin\uFF5C>");
  co_return opens&& co_await ReadCall(context);
}

constexpr CallOpener kOpeners[] = {
    {.literal = "<\uFF5Ctool_calls_begin\uFF5C>", .read = &ReadSection},
    {.literal = "<\uFF5Ctool_call_begin\uFF5C>", .read = &ReadCall}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|EOT|>",
                                           "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};
constexpr std::string_view kMarkers[] = {"<\uFF5Ctool_calls_begin\uFF5C>",
                                         "<\uFF5Ctool_calls_end\uFF5C>",
                                         "<\uFF5Ctool_call_begin\uFF5C>",
                                         "<\uFF5Ctool_call_end\uFF5C>",
                                         "<\uFF5Ctool_sep\uFF5C>",
                                         "<think>",
                                         "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("steptml:invoke") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

constexpr CallTagTexts kTexts{.name_opener = "<steptml:invoke name=\"",
                              .name_closer = "\">",
                              .parameter_opener = "<steptml:parameter name=\"",
                              .parameter_closer = "\">",
                              .before_closer = "",
                              .value_closer = "</steptml:parameter>",
                              .after_closer = "",
                              .call_closer = "</steptml:invoke>"};

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return TaggedCall(grammar, tool, kTexts);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {
      .trigger = "<\uFF5Ctool_calls_begin\uFF5C>",
      .opener =
          "<\uFF5Ctool_calls_begin\uFF5C><\uFF5Ctool_call_begin\uFF5C>function<\uFF5Ctool_"
          "sep\uFF5C>",
      .separator =
          "<\uFF5Ctool_call_end\uFF5C><\uFF5Ctool_call_begin\uFF5C>function<\uFF5Ctool_sep\uFF5C>",
      .closer = "<\uFF5Ctool_call_end\uFF5C><\uFF5Ctool_calls_end\uFF5C>",
      .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "step3",

                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::step3
