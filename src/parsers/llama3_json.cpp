#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::llama3_json {
namespace {

// {"name": ..., "parameters": {...}}; and more of them, with semicolons or white space between.
Task<bool> ReadObjects(CallContext& context) {
  Scanner& in = context.in;
  co_await in.SkipSpace();
  const bool first = co_await ReadJsonCall(context);
  if (!first) {
    co_return false;
  }
  while (true) {
    in.Commit();
    const std::size_t mark = in.Mark();
    while (co_await in.Need(1) && (IsSpace(in[0]) || in[0] == ';')) {
      in.Take(1);
    }
    (void)co_await in.Accept("<|python_tag|>");
    const bool called = co_await ReadJsonCall(context);
    if (!called) {
      in.Rewind(mark);
      co_return true;
    }
  }
}

Task<bool> ReadBare(CallContext& context) {
  context.in.Rewind(context.in.Mark() - 1);  // the brace
  return ReadObjects(context);
}

constexpr CallOpener kOpeners[] = {{.literal = "<|python_tag|>", .read = &ReadObjects},
                                   {.literal = "{", .read = &ReadBare, .only_at_start = true}};
constexpr std::string_view kEndTokens[] = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"};
constexpr std::string_view kAliases[] = {"llama", "llama3", "llama3.1", "llama3.2", "llama4_json"};
constexpr std::string_view kMarkers[] = {"<|python_tag|>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<|start_header_id|>") != std::string_view::npos &&
         (chat_template.find("\"parameters\"") != std::string_view::npos ||
          chat_template.find("<|python_tag|>") != std::string_view::npos) &&
         chat_template.find("<TOOLCALL>") == std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return JsonCall(grammar, tool, "parameters");
}

CallForm Calls(const GrammarWriter& /*grammar*/) { return {.separator = "; ", .call = &CallText}; }

}  // namespace

extern constinit const ParserFormat kFormat{.name = "llama3_json",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::llama3_json
