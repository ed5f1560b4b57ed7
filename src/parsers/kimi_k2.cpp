#include <algorithm>

#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::kimi_k2 {
namespace {

constexpr std::string_view kCallBegin = "<|tool_call_begin|>";
constexpr std::string_view kArguments = "<|tool_call_argument_begin|>";
constexpr std::string_view kPrefix = "functions.";
// No name is longer.
constexpr std::size_t kMaxName = 256;

// functions.NAME:INDEX<|tool_call_argument_begin|>ARGUMENTS<|tool_call_end|>
Task<bool> ReadCall(CallContext& context) {
  Scanner& in = context.in;
  const std::size_t end = co_await in.Find(kArguments);
  if (end == std::string_view::npos || end > kMaxName) {
    co_return false;
  }
  std::string id(in.Take(end));
  (void)co_await in.Accept(kArguments);
  id.erase(std::find_if_not(id.rbegin(), id.rend(), IsSpace).base(), id.end());
  id.erase(id.begin(), std::ranges::find_if_not(id, IsSpace));
  std::string name = id.substr(0, id.rfind(':'));
  if (context.Tool(name) == nullptr && name.starts_with(kPrefix)) {
    name.erase(0, kPrefix.size());
  }
  const bool called = context.Tool(name) != nullptr && co_await ReadNamedCall(context, name, id);
  if (called) {
    (void)co_await in.AcceptAfterSpace("<|tool_call_end|>");
    (void)co_await in.AcceptAfterSpace("<|tool_calls_section_end|>");
  }
  co_return called;
}

Task<bool> ReadSection(CallContext& context) {
  const bool opens = co_await context.in.AcceptAfterSpace(kCallBegin);
  co_return opens&& co_await ReadCall(context);
}

constexpr CallOpener kOpeners[] = {
    {.literal = "<|tool_calls_section_begin|>", .read = &ReadSection},
    {.literal = kCallBegin, .read = &ReadCall}};
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "[EOS]"};
constexpr std::string_view kAliases[] = {"kimi", "kimi_k2_thinking"};
constexpr std::string_view kMarkers[] = {"<|tool_calls_section_begin|>",
                                         "<|tool_calls_section_end|>",
                                         "<|tool_call_begin|>",
                                         "<|tool_call_argument_begin|>",
                                         "<|tool_call_end|>",
                                         "<think>",
                                         "</think>"};
constexpr Syntax kSyntax{.reasoning = kThinkTags, .openers = kOpeners, .end_tokens = kEndTokens};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<|tool_calls_section_begin|>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options);
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "kimi_k2",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make};

}  // namespace parsers::kimi_k2
