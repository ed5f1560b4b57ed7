#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::mistral {
namespace {

// [TOOL_CALLS] and a list of {"name", "arguments"}, or a name and its arguments; the marker again
// for each further call. Ids have nine characters: the templates insist.

// NAME, NAME[ARGS] or NAME[CALL_ID]ID[ARGS], then the arguments.
Task<bool> ReadNamed(CallContext& context) {
  Scanner& in = context.in;
  std::string name;
  while (co_await in.Need(1) && name.size() < kMaxName && in[0] != '[' && in[0] != '{') {
    name += in.Take(1);
  }
  name = Trimmed(name);
  if (context.Tool(name) == nullptr) {
    co_return false;
  }
  std::string id;
  const bool has_id = co_await in.Accept("[CALL_ID]");
  while (has_id && co_await in.Need(1) && id.size() < kMaxName && in[0] != '[' && in[0] != '{') {
    id += in.Take(1);
  }
  (void)co_await in.Accept("[ARGS]");
  co_return co_await ReadNamedCall(context, name, id);
}

Task<bool> ReadCalls(CallContext& context) {
  co_await context.in.SkipSpace();
  const bool is_list = co_await context.in.Sees("[");
  if (is_list) {
    co_return co_await ReadJsonCalls(context);
  }
  co_return co_await ReadNamed(context);
}

constexpr ReasoningTags kReasoning[] = {{"[THINK]", "[/THINK]"}, {"<think>", "</think>"}};

constexpr CallOpener kOpeners[] = {{.literal = "[TOOL_CALLS]", .read = &ReadCalls}};
constexpr std::string_view kEndTokens[] = {"</s>"};
constexpr std::string_view kAliases[] = {"mistral_nemo", "magistral", "devstral"};
constexpr std::string_view kMarkers[] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]",
                                         "[/THINK]"};
constexpr Syntax kSyntax{
    .reasoning = kReasoning, .openers = kOpeners, .end_tokens = kEndTokens, .id_length = 9};

bool Matches(std::string_view chat_template) {
  return chat_template.find("[TOOL_CALLS]") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string ListedCall(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return JsonCall(grammar, tool);
}

std::string NamedCall(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return grammar.Text(tool.name + "[ARGS]") + " " + JsonArguments(grammar, tool);
}

CallForm Calls(const GrammarWriter& grammar) {
  if (grammar.HasToken("[ARGS]")) {
    return {.trigger = "[TOOL_CALLS]",
            .opener = "[TOOL_CALLS]",
            .separator = "[TOOL_CALLS]",
            .call = &NamedCall};
  }
  return {.trigger = "[TOOL_CALLS]",
          .opener = "[TOOL_CALLS][",
          .separator = ", ",
          .closer = "]",
          .call = &ListedCall};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "mistral",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kReasoning};

}  // namespace parsers::mistral
