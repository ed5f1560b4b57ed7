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

}  // namespace

extern constinit const ParserFormat kFormat{.name = "seed_oss",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make};

}  // namespace parsers::seed_oss
