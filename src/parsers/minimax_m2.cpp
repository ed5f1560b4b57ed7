#include "parsers/shared_minimax.h"

namespace parsers::minimax_m2 {
namespace {

// <minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>...

constexpr std::string_view kAliases[] = {"minimax", "minimax_m2_5"};

bool Matches(std::string_view chat_template) {
  return chat_template.find("<minimax:tool_call>") != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(MinimaxSyntax(), options);
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "minimax_m2",
                                            .aliases = kAliases,
                                            .markers = kMinimaxMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &MinimaxCalls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::minimax_m2
