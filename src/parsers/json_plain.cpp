#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::json_plain {
namespace {

// A message that is the JSON of a call, or of several, and nothing before it. Chosen by name, and
// for xLAM's models.
Task<bool> ReadObject(CallContext& context) {
  context.in.Rewind(context.in.Mark() - 1);  // the bracket
  return ReadJsonCalls(context);
}

Task<bool> ReadFenced(CallContext& context) { return ReadWrappedJsonCalls(context, "```"); }

constexpr CallOpener kOpeners[] = {
    {.literal = "{", .read = &ReadObject, .only_at_start = true},
    {.literal = "[", .read = &ReadObject, .only_at_start = true},
    {.literal = "```json", .read = &ReadFenced, .only_at_start = true},
    {.literal = "<tool_call>", .read = &ReadFenced}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>",   "</s>",
                                           "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>"};
constexpr std::string_view kAliases[] = {"json", "xlam", "phi4_mini_json", "internlm"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("xlam") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return JsonCall(grammar, tool);
}

CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.opener = "[", .separator = ", ", .closer = "]", .call = &CallText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "json_plain",
                                            .aliases = kAliases,

                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::json_plain
