#include "parsers/shared_machine.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace parsers {
namespace {

// Characters at which something may begin; runs of others are taken at once.
class StopCharacters {
 public:
  void Add(std::string_view literal) {
    is_stop_[static_cast<unsigned char>(literal.front())] = true;
  }
  // How many characters of `text` come before the first one.
  [[nodiscard]] std::size_t Run(std::string_view text) const {
    return static_cast<std::size_t>(
        std::ranges::find_if(text,
                             [&](char c) { return is_stop_[static_cast<unsigned char>(c)]; }) -
        text.begin());
  }

 private:
  std::array<bool, 256> is_stop_{};
};

std::string_view TrimmedRight(std::string_view text) {
  while (!text.empty() && IsSpace(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

bool HasTools(const CallContext& context) { return !context.options.tools.empty(); }

// Does the rest of the text, which has ended, begin with a call?
bool CallComesHere(CallContext& context, const CallOpener& opener) {
  Scanner in;
  in.Append(context.in.Peek(context.in.available()));
  in.End();
  (void)in.Take(opener.literal.size());  // not left out: some readers go back to it
  Output nowhere;
  CallContext trial{.in = in, .out = nowhere, .options = context.options};
  Task<bool> task = opener.read(trial);
  task.Start();  // never waits: the text has ended
  return nowhere.calls() > 0;
}

// Inside a block, up to and including its closer. False: the text ended, or a call ended the block.
Task<bool> ReadReasoningBlock(CallContext& context, const Syntax& syntax, std::string_view closer) {
  Scanner& in = context.in;
  StopCharacters stops;
  stops.Add(closer);
  if (HasTools(context)) {
    for (const CallOpener& opener : syntax.openers) {
      stops.Add(opener.literal);
    }
  }
  while (co_await in.Need(1)) {
    const std::size_t run = stops.Run(in.Peek(in.available()));
    if (run > 0) {
      context.out.Reasoning(in.Take(run));
      in.Commit();
      continue;
    }
    const bool closed = co_await in.Accept(closer);
    if (closed) {
      context.out.EndReasoning();
      co_return true;
    }
    for (const CallOpener& opener : syntax.openers) {
      const bool may_begin = HasTools(context) && !opener.only_at_start;
      const bool sees = may_begin && co_await in.Sees(opener.literal);
      if (!sees) {
        continue;
      }
      // Whether this is a draft or a call is known at the closer or at the end.
      const std::size_t at = co_await in.Find(closer);
      if (at != std::string_view::npos) {
        context.out.Reasoning(in.Take(at));
        break;
      }
      if (CallComesHere(context, opener)) {
        context.out.EndReasoning();
        co_return false;
      }
    }
    const bool closes_now = co_await in.Sees(closer);
    if (!closes_now) {
      context.out.Reasoning(in.Take(1));
    }
  }
  co_return false;
}

Task<bool> ReadCallHere(CallContext& context, const Syntax& syntax) {
  Scanner& in = context.in;
  if (!HasTools(context)) {
    co_return false;
  }
  for (const CallOpener& opener : syntax.openers) {
    if ((opener.only_at_start && !context.out.AtStart()) || context.out.IsQuoting()) {
      continue;
    }
    const std::size_t mark = in.Mark();
    const bool accepted = co_await in.Accept(opener.literal);
    const bool read = accepted && co_await opener.read(context);
    if (read) {
      context.out.EndCall();
      in.Commit();
      co_return true;
    }
    in.Rewind(mark);
  }
  co_return false;
}

// Keeps back what may be the end tokens at the end of a text, wherever they stand there: behind an
// answer, in reasoning or arguments that were never closed.
class EndTokens {
 public:
  explicit EndTokens(std::span<const std::string_view> tokens) : tokens_(tokens) {}

  // All of the text up to here that is not kept back.
  std::string Push(std::string_view text) {
    held_ += text;
    std::size_t keep = 0;
    for (; keep < held_.size() && !MayEnd(std::string_view(held_).substr(keep)); ++keep) {
    }
    std::string free = held_.substr(0, keep);
    held_.erase(0, keep);
    return free;
  }
  // The text has ended: what was kept back and is no end token.
  std::string Rest() {
    const bool all_tokens = !held_.empty() && LeftOf(held_).empty();
    return all_tokens ? std::string() : std::exchange(held_, {});
  }

 private:
  // What follows the tokens that `text` begins with, and the white space behind them.
  std::string_view LeftOf(std::string_view text) const {
    for (bool found = true; found;) {
      found = false;
      for (const std::string_view token : tokens_) {
        if (text.starts_with(token)) {
          text.remove_prefix(token.size());
          text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
          found = true;
        }
      }
    }
    return text;
  }
  // Are these tokens and nothing else, or the beginning of such?
  bool MayEnd(std::string_view text) const {
    const std::string_view left = LeftOf(text);
    return std::ranges::any_of(tokens_,
                               [left](std::string_view token) { return token.starts_with(left); });
  }

  static constexpr std::string_view kSpace = " \n\t\r";
  std::span<const std::string_view> tokens_;
  std::string held_;
};

class Machine final : public StreamParser {
 public:
  Machine(const Syntax& syntax, const ParserOptions& options, MessageReader reader)
      : options_(options),
        prompt_tail_(options.prompt_tail),
        end_tokens_(syntax.end_tokens),
        out_(syntax.id_length),
        task_(reader(context_, syntax)) {
    options_.prompt_tail = prompt_tail_;
  }

  void Feed(std::string_view text, const EventSink& emit) override {
    out_.SetSink(&emit);
    Start();
    in_.Append(end_tokens_.Push(text));
    out_.SetSink(nullptr);
  }
  void Finish(bool cut, const EventSink& emit) override {
    out_.SetSink(&emit);
    Start();
    context_.cut = cut;
    in_.Append(end_tokens_.Rest());
    in_.End();
    out_.Finish();
    out_.SetSink(nullptr);
  }

 private:
  void Start() {
    if (!std::exchange(started_, true)) {
      task_.Start();
    }
  }

  ParserOptions options_;
  std::string prompt_tail_;
  EndTokens end_tokens_;
  Scanner in_;
  Output out_;
  CallContext context_{.in = in_, .out = out_, .options = options_};
  Task<bool> task_;
  bool started_ = false;
};

}  // namespace

const chat::ToolSpec* CallContext::Tool(std::string_view name) const {
  const auto found = std::ranges::find(options.tools, name, &chat::ToolSpec::name);
  return found == options.tools.end() ? nullptr : &*found;
}

Task<bool> ReadReasoning(CallContext& context, const Syntax& syntax) {
  Scanner& in = context.in;
  const std::string_view tail = TrimmedRight(context.options.prompt_tail);
  const ReasoningTags* open = nullptr;
  for (const ReasoningTags& tags : syntax.reasoning) {
    open = tail.ends_with(TrimmedRight(tags.opener)) ? &tags : open;
  }
  while (true) {
    // An opener here opens the block; where it is open already, it says so once more.
    const std::size_t mark = in.Mark();
    if (!syntax.reasoning.empty()) {
      co_await in.SkipSpace();
    }
    bool opens = false;
    bool closes = false;
    for (const ReasoningTags& tags : syntax.reasoning) {
      opens = !opens && co_await in.Accept(tags.opener);
      if (opens) {
        open = &tags;
        break;
      }
      closes = open == nullptr && co_await in.Accept(tags.closer);  // of a block left empty
      if (closes) {
        break;
      }
    }
    if (!opens && !closes) {
      in.Rewind(mark);
      if (open == nullptr) {
        co_return true;
      }
    }
    if (!closes) {
      const bool closed = co_await ReadReasoningBlock(context, syntax, open->closer);
      if (!closed) {
        co_return true;
      }
    }
    open = nullptr;
    while (co_await in.Need(1) && in[0] == '\n') {
      in.Take(1);
    }
    in.Commit();
  }
}

Task<bool> ReadContent(CallContext& context, const Syntax& syntax) {
  Scanner& in = context.in;
  StopCharacters stops;
  for (const CallOpener& opener : syntax.openers) {
    stops.Add(opener.literal);
  }
  while (co_await in.Need(1)) {
    const std::size_t run = stops.Run(in.Peek(in.available()));
    if (run > 0) {
      context.out.Text(in.Take(run));
      in.Commit();
      continue;
    }
    const bool called = co_await ReadCallHere(context, syntax);
    if (!called) {
      context.out.Text(in.Take(1));
    }
  }
  co_return true;
}

Task<bool> ReadMessage(CallContext& context, const Syntax& syntax) {
  co_await ReadReasoning(context, syntax);
  co_await ReadContent(context, syntax);
  co_return true;
}

std::unique_ptr<StreamParser> MakeMachine(const Syntax& syntax, const ParserOptions& options) {
  return MakeMachine(syntax, options, &ReadMessage);
}

std::unique_ptr<StreamParser> MakeMachine(const Syntax& syntax, const ParserOptions& options,
                                          MessageReader reader) {
  return std::make_unique<Machine>(syntax, options, reader);
}

}  // namespace parsers
