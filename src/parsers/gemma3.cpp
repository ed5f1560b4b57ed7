#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"
#include "parsers/shared_python_call.h"

namespace parsers::gemma3 {
namespace {

// Gemma 3 was given no format of its own: it answers in the JSON or the Python that it is asked
// for. The JSON of a call or of several, or a list of Python calls.
Task<bool> ReadJsonOrPython(CallContext& context) {
  Scanner& in = context.in;
  co_await in.SkipSpace();
  const std::size_t mark = in.Mark();
  const bool json = co_await ReadJsonCalls(context);
  if (json) {
    co_return true;
  }
  in.Rewind(mark);
  co_return co_await ReadPythonList(context);
}

Task<bool> ReadBare(CallContext& context) {
  context.in.Rewind(context.in.Mark() - 1);  // the bracket
  return ReadJsonOrPython(context);
}

Task<bool> ReadFenced(CallContext& context) {
  const bool called = co_await ReadJsonOrPython(context);
  if (called) {
    (void)co_await context.in.AcceptAfterSpace("```");
  }
  co_return called;
}

// As a prompt that describes tools asks for it (chat/tools_as_text.h).
Task<bool> ReadTagged(CallContext& context) {
  return ReadWrappedJsonCalls(context, "</tool_call>");
}

// ```tool_code: one Python call, perhaps inside print().
Task<bool> ReadCode(CallContext& context) {
  constexpr static std::string_view kPrint = "print(";
  Scanner& in = context.in;
  co_await in.SkipSpace();
  std::size_t end = co_await in.Find("```");
  if (end == std::string_view::npos) {
    end = in.available();
  }
  std::string_view code = in.Peek(end);
  while (!code.empty() && IsSpace(code.back())) {
    code.remove_suffix(1);
  }
  if (code.starts_with(kPrint) && code.ends_with(')')) {
    code = code.substr(kPrint.size(), code.size() - kPrint.size() - 1);
  }
  if (!PutPythonCalls(context, code)) {
    co_return false;
  }
  in.Take(end);
  (void)co_await in.Accept("```");
  co_return true;
}

constexpr CallOpener kOpeners[] = {
    {.literal = "<tool_call>", .read = &ReadTagged},
    {.literal = "```tool_code", .read = &ReadCode, .only_at_start = true},
    {.literal = "```tool_call", .read = &ReadFenced, .only_at_start = true},
    {.literal = "```json", .read = &ReadFenced, .only_at_start = true},
    {.literal = "{", .read = &ReadBare, .only_at_start = true},
    {.literal = "[", .read = &ReadBare, .only_at_start = true}};
constexpr std::string_view kEndTokens[] = {"<end_of_turn>", "<eos>"};
constexpr std::string_view kAliases[] = {"gemma"};
constexpr Syntax kSyntax{.openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<start_of_turn>") != std::string_view::npos &&
         chat_template.find("<start_function_call>") == std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

CallForm Calls(const GrammarWriter& /*grammar*/) { return TaggedJsonForm(); }

}  // namespace

extern constinit const ParserFormat kFormat{.name = "gemma3",
                                            .aliases = kAliases,

                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls};

}  // namespace parsers::gemma3
