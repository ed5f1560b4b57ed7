#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "parsers/shared_call_grammar.h"
#include "parsers/shared_json_call.h"
#include "parsers/shared_machine.h"

namespace parsers::harmony {
namespace {

// Messages, each <|start|>assistant<|channel|>CHANNEL to=RECIPIENT <|constrain|>json<|message|>BODY
// and a token that ends it; of the first one the prompt has the beginning.

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kNamespace = "functions.";
constexpr std::array<std::string_view, 3> kEnds = {"<|end|>", "<|call|>", "<|return|>"};
// No header is longer.
constexpr std::size_t kMaxHeader = 512;
constexpr std::string_view kMarkers[] = {kStart,    kChannel,   kMessage,    "<|constrain|>",
                                         "<|end|>", "<|call|>", "<|return|>"};

// What stands before a message's body.
struct Header {
  bool is_analysis = false;
  std::string recipient;
};

Header ParseHeader(std::string_view text) {
  Header header;
  if (const std::size_t at = text.rfind(kChannel); at != std::string_view::npos) {
    header.is_analysis = text.substr(at + kChannel.size()).starts_with("analysis");
  }
  if (const std::size_t at = text.rfind(kRecipient); at != std::string_view::npos) {
    const std::string_view rest = text.substr(at + kRecipient.size());
    header.recipient = rest.substr(0, rest.find_first_of(" \n<"));
  }
  return header;
}

// What the prompt has of the first message.
std::string_view OpenHeader(std::string_view prompt_tail) {
  const std::size_t at = prompt_tail.rfind(kStart);
  return at == std::string_view::npos ? std::string_view() : prompt_tail.substr(at);
}

// Does a header come here, rather than text without any framing?
Task<bool> HeaderComes(Scanner& in) {
  for (const std::string_view beginning : {kStart, kChannel, kMessage, std::string_view(" to=")}) {
    const bool sees = co_await in.Sees(beginning);
    if (sees) {
      co_return true;
    }
  }
  co_return false;
}

Task<bool> AcceptEnd(Scanner& in) {
  for (const std::string_view end : kEnds) {
    const bool accepted = co_await in.Accept(end);
    if (accepted) {
      co_return true;
    }
  }
  co_return co_await in.Sees(kStart);
}

// One that has no meaning where it stands. No text has markers: they are special tokens.
Task<bool> AcceptMarker(Scanner& in) {
  for (const std::string_view marker : kMarkers) {
    const bool accepted = co_await in.Accept(marker);
    if (accepted) {
      co_return true;
    }
  }
  co_return false;
}

// Is this the beginning of a header, or all of one: nothing to be read as text?
bool IsHeader(std::string_view text) {
  std::size_t at = 0;
  const auto take = [&](std::string_view literal) {
    const std::size_t length = std::min(literal.size(), text.size() - at);
    const bool taken = text.substr(at, length) == literal.substr(0, length);
    at += taken ? length : 0;
    return taken;
  };
  const auto take_word = [&] {
    at = std::min(text.find_first_of(" \n<", at), text.size());
    return true;
  };
  while (at < text.size()) {
    const bool taken = (take(kStart) && take("assistant")) || (take(kChannel) && take_word()) ||
                       (take(" to=") && take_word()) || (take("to=") && take_word()) ||
                       (take("<|constrain|>") && take_word()) || take(" json") || take(" code") ||
                       take(kMessage) || take(" ");
    if (!taken) {
      return false;
    }
  }
  return true;
}

// Up to what ends the message.
Task<bool> ReadBody(CallContext& context, bool is_reasoning) {
  Scanner& in = context.in;
  while (co_await in.Need(1)) {
    const std::string_view text = in.Peek(in.available());
    std::size_t run = std::min(text.find('<'), text.size());
    if (run == 0) {
      const bool ended = co_await AcceptEnd(in);
      if (ended) {
        co_return true;
      }
      const bool stray = co_await AcceptMarker(in);
      if (stray) {
        continue;
      }
      run = 1;
    }
    const std::string_view piece = in.Take(run);
    if (is_reasoning) {
      context.out.Reasoning(piece);
    } else {
      context.out.Text(piece);
    }
    in.Commit();
  }
  co_return true;
}

Task<bool> ReadOneMessage(CallContext& context, const Header& header) {
  std::string_view name = header.recipient;
  if (context.Tool(name) == nullptr && name.starts_with(kNamespace)) {
    name.remove_prefix(kNamespace.size());
  }
  const bool to_tool = context.Tool(name) != nullptr;
  const bool called = to_tool && co_await ReadNamedCall(context, std::string(name));
  if (called) {
    co_await context.in.SkipSpace();
  }
  const bool is_reasoning = header.is_analysis && header.recipient.empty();
  co_await ReadBody(context, is_reasoning);
  if (is_reasoning) {
    context.out.EndReasoning();
  }
  co_return true;
}

Task<bool> ReadMessages(CallContext& context, const Syntax& /*syntax*/) {
  Scanner& in = context.in;
  std::string header(OpenHeader(context.options.prompt_tail));
  while (co_await in.Need(1)) {
    const std::size_t in_header = header.find(kMessage);
    if (in_header == std::string::npos) {
      const bool comes = header.find(kChannel) != std::string::npos || co_await HeaderComes(in);
      const std::size_t end = comes ? co_await in.Find(kMessage) : std::string_view::npos;
      if (comes && end == std::string_view::npos &&
          IsHeader(header + std::string(in.Peek(in.available())))) {
        co_return true;  // the text was cut inside a header, which says nothing yet
      }
      if (comes && end <= kMaxHeader) {
        header += in.Take(end);
        (void)co_await in.Accept(kMessage);
      } else {
        header.clear();  // text without framing
        (void)co_await AcceptMarker(in);
      }
    } else {
      header.resize(in_header);
    }
    co_await ReadOneMessage(context, ParseHeader(header));
    header.clear();
  }
  co_return true;
}

constexpr std::string_view kAliases[] = {"openai", "gpt_oss", "gptoss", "gpt-oss",
                                         "reasoning_harmony"};
constexpr ReasoningTags kReasoning[] = {
    {"<|channel|>analysis<|message|>", "<|end|><|start|>assistant"}};
constexpr Syntax kSyntax{};

bool Matches(std::string_view chat_template) {
  return chat_template.find(kChannel) != std::string_view::npos;
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(kSyntax, options, &ReadMessages);
}

std::string CallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return grammar.Text("<|channel|>commentary to=functions." + tool.name +
                      " <|constrain|>json<|message|>") +
         " " + JsonArguments(grammar, tool);
}

// Thoughts and words to the user, each a message, then the calls or the answer.
std::string MessageText(GrammarWriter& grammar, const std::string& calls,
                        const std::string& answer) {
  constexpr std::string_view kNext = "<|end|><|start|>assistant";
  const std::string thought =
      fmt::format("{} {}", grammar.Text("<|channel|>analysis<|message|>"), grammar.Until(kNext));
  if (grammar.rules().must_call) {
    return fmt::format("({})* {}", thought, calls);
  }
  const std::string words =
      fmt::format("{} {}", grammar.Text("<|channel|>commentary<|message|>"), grammar.Until(kNext));
  const std::string last =
      fmt::format("{} {}", grammar.Text("<|channel|>final<|message|>"), answer);
  return calls.empty() ? fmt::format("({} | {})* {}", thought, words, last)
                       : fmt::format("({} | {})* ({} | {})", thought, words, calls, last);
}

// What ends a call ends the text.
CallForm Calls(const GrammarWriter& /*grammar*/) {
  return {.one_only = true, .call = &CallText, .message = &MessageText};
}

}  // namespace

extern constinit const ParserFormat kFormat{.name = "harmony",
                                            .aliases = kAliases,
                                            .markers = kMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &Calls,
                                            .reasoning = kReasoning};

}  // namespace parsers::harmony
