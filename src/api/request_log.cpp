#include "api/request_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace api {
namespace {

constexpr std::size_t kMaxLines = 200;
constexpr std::size_t kMaxPast = 64;
constexpr std::size_t kMaxPastTokens = std::size_t{4} << 20U;  // 16 MiB
constexpr std::size_t kLeastCommon = 16;                       // fewer tokens any two prompts share
constexpr std::size_t kNeedleBytes = 80;
constexpr std::size_t kSnippetBefore = 6;  // tokens
constexpr std::size_t kSnippetAfter = 10;

std::size_t HashOf(std::string_view text) { return std::hash<std::string_view>()(text); }

std::size_t HashOf(const chat::Message& message) {
  std::string all = message.content;
  for (const chat::ToolCall& call : message.tool_calls) {
    all += '\x1f' + call.name + '\x1f' + DumpJson(call.arguments);
  }
  return HashOf(all);
}

std::string_view Trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// Where the first message's text begins in the rendered text: templates may list tools before it.
std::size_t BeginOfFirst(const chat::Message& message, const std::string& rendered) {
  const std::string_view text = Trimmed(message.content).substr(0, kNeedleBytes);
  const std::size_t found = text.empty() ? std::string::npos : rendered.find(text);
  return found == std::string::npos ? 0 : found;
}

// Where the message's text ends in the rendered text, as far as it is found from `from` on.
std::size_t EndOf(const chat::Message& message, const std::string& rendered, std::size_t from) {
  const auto pass = [&](std::string_view text, std::size_t more) {
    const std::size_t found = text.empty() ? std::string::npos : rendered.find(text, from);
    from = found == std::string::npos ? from : found + text.size() + more;
  };
  const std::string_view text = Trimmed(message.content);
  const std::string_view needle = text.substr(0, kNeedleBytes);
  pass(needle, text.size() - needle.size());
  for (const chat::ToolCall& call : message.tool_calls) {
    pass(call.name, DumpJson(call.arguments).size());
  }
  return from;
}

std::string_view NameOf(chat::Role role) {
  switch (role) {
    case chat::Role::kSystem:
      return "system";
    case chat::Role::kDeveloper:
      return "developer";
    case chat::Role::kUser:
      return "user";
    case chat::Role::kAssistant:
      return "assistant";
    case chat::Role::kTool:
      return "tool";
  }
  return "";
}

bool IsSystem(chat::Role role) {
  return role == chat::Role::kSystem || role == chat::Role::kDeveloper;
}

// The first message that ends after the byte, else the last.
std::optional<std::size_t> MessageAt(const PromptFacts& facts, std::size_t byte) {
  if (facts.messages.empty()) {
    return std::nullopt;
  }
  const auto found = std::ranges::find_if(
      facts.messages, [&](const PromptFacts::Message& message) { return byte < message.end; });
  const auto at = static_cast<std::size_t>(found - facts.messages.begin());
  return std::min(at, facts.messages.size() - 1);
}

std::string SnippetAt(const chat::Tokenizer& tokenizer, const std::vector<TokenId>& tokens,
                      std::size_t at) {
  const std::size_t begin = at - std::min(at, kSnippetBefore);
  const std::size_t end = std::min(tokens.size(), at + kSnippetAfter);
  const std::vector<TokenId> window(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(end));
  return tokenizer.Decode(window, /*skip_special=*/false).value_or("");
}

std::size_t BytesOf(const chat::Tokenizer& tokenizer, const std::vector<TokenId>& tokens,
                    std::size_t n) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    bytes += tokenizer.TokenBytes(tokens[i]).size();
  }
  return bytes;
}

bool DropsReasoning(const PromptFacts& was, const PromptFacts& now) {
  const std::size_t n = std::min(was.messages.size(), now.messages.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (was.messages[i].reasoning != 0 && now.messages[i].reasoning == 0) {
      return true;
    }
  }
  return false;
}

// The likeliest reason why `now` parts in the message `at` from an earlier prompt, or in its reply.
std::string_view CauseOf(const PromptFacts& was, const PromptFacts& now,
                         std::optional<std::size_t> at) {
  if (was.messages.empty() || now.messages.empty()) {
    return "the text changed";
  }
  const auto first_other = std::ranges::find_if(
      now.messages, [](const PromptFacts::Message& message) { return !IsSystem(message.role); });
  // Templates show tools in the system's turn, or where it would be.
  if (was.tools != now.tools &&
      *at <= static_cast<std::size_t>(first_other - now.messages.begin())) {
    return "tool list changed";
  }
  const PromptFacts::Message& message = now.messages[*at];
  const PromptFacts::Message* before = *at < was.messages.size() ? &was.messages[*at] : nullptr;
  if (before != nullptr && IsSystem(message.role) && IsSystem(before->role)) {
    return "system text changed";
  }
  if (DropsReasoning(was, now)) {
    return "earlier reasoning dropped";
  }
  if (before == nullptr || before->role != message.role ||
      now.messages.size() < was.messages.size()) {
    return "messages were dropped, added or replaced";
  }
  if (before->content == message.content && before->reasoning == message.reasoning) {
    return message.reasoning != 0 ? "the template leaves out earlier reasoning"
                                  : "the template shows an earlier message in another way";
  }
  return *at + 1 == was.messages.size() ? "the last message changed" : "an earlier message changed";
}

// The same where the earlier prompt is shared as a whole and its reply differs.
std::string_view CauseInReply(const PromptFacts& now, std::optional<std::size_t> at,
                              bool had_reasoning) {
  if (!at || now.messages[*at].role != chat::Role::kAssistant) {
    return "the conversation went on without the reply";
  }
  if (!had_reasoning) {
    return "the reply came back in another form";
  }
  return now.messages[*at].reasoning == 0 ? "earlier reasoning dropped"
                                          : "the template leaves out earlier reasoning";
}

std::string Now() {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)));
}

Json ToJson(const Divergence& divergence) {
  return {{"token", divergence.token},
          {"message", divergence.message ? Json(*divergence.message) : Json(nullptr)},
          {"role", divergence.role ? Json(NameOf(*divergence.role)) : Json(nullptr)},
          {"was", divergence.was},
          {"now", divergence.now},
          {"cause", divergence.cause}};
}

// Text in one line of a log.
std::string Quoted(const std::string& text) { return DumpJson(Json(text)); }

std::string InWords(const Divergence& divergence) {
  std::string where;
  if (divergence.message) {
    where = fmt::format(" (message {}, {})", *divergence.message, NameOf(*divergence.role));
  }
  std::string texts;
  if (!divergence.was.empty() || !divergence.now.empty()) {
    texts = fmt::format(": {} was {}", Quoted(divergence.now), Quoted(divergence.was));
  }
  return fmt::format("; {}, at token {}{}{}", divergence.cause, divergence.token, where, texts);
}

}  // namespace

PromptFacts FactsOf(const chat::Conversation& conversation, const std::string& rendered) {
  PromptFacts facts;
  std::size_t end = 0;
  for (const chat::Message& message : conversation.messages) {
    const std::size_t begin = facts.messages.empty() ? BeginOfFirst(message, rendered) : end;
    end = EndOf(message, rendered, end);
    facts.messages.push_back(
        {.role = message.role,
         .begin = begin,
         .end = end,
         .content = HashOf(message),
         .reasoning = message.reasoning.value_or("").empty() ? 0 : HashOf(*message.reasoning)});
  }
  for (const chat::ToolSpec& tool : conversation.tools) {
    facts.tools = facts.tools * 31 + HashOf(DumpJson(tool.original));
  }
  return facts;
}

RequestLog::Watched RequestLog::Watch(const chat::Tokenizer& tokenizer, Incoming incoming) const {
  Watched watched;
  watched.own_ = {.tokens = std::move(incoming.prompt),
                  .facts = std::move(incoming.facts),
                  .salt = std::move(incoming.salt)};
  watched.own_.prompt_tokens = watched.own_.tokens.size();
  watched.request_id_ = std::move(incoming.id);
  watched.block_tokens_ = incoming.block_tokens;
  std::vector<std::shared_ptr<const Past>> past;
  {
    const std::lock_guard lock(mutex_);
    past.assign(past_.begin(), past_.end());
  }
  const std::vector<TokenId>& tokens = watched.own_.tokens;
  bool is_first = true;
  for (const std::shared_ptr<const Past>& each : past) {
    if (each->salt != watched.own_.salt) {
      continue;
    }
    is_first = false;
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(tokens, each->tokens).in1 - tokens.begin());
    if (common >= std::max(kLeastCommon, incoming.block_tokens) && common > watched.common_) {
      watched.common_ = common;
      watched.nearest_ = each;
    }
  }
  Divergence& divergence = watched.divergence_;
  divergence.token = static_cast<std::int64_t>(watched.common_);
  if (!watched.nearest_) {
    divergence.token = 0;
    divergence.cause = is_first ? "the first request" : "no recent request begins like this";
    return watched;
  }
  const Past& nearest = *watched.nearest_;
  if (watched.common_ == tokens.size() || watched.common_ == nearest.tokens.size()) {
    return watched;  // one continues the other: nothing differs
  }
  const PromptFacts& now = watched.own_.facts;
  divergence.message = MessageAt(now, BytesOf(tokenizer, tokens, watched.common_));
  if (divergence.message) {
    divergence.role = now.messages[*divergence.message].role;
  }
  divergence.was = SnippetAt(tokenizer, nearest.tokens, watched.common_);
  divergence.now = SnippetAt(tokenizer, tokens, watched.common_);
  divergence.cause = watched.common_ >= nearest.prompt_tokens
                         ? CauseInReply(now, divergence.message, nearest.reply_has_reasoning)
                         : CauseOf(nearest.facts, now, divergence.message);
  return watched;
}

void RequestLog::Add(Watched watched, const scheduler::RequestStats& stats, const Reply& reply) {
  const auto cached = static_cast<std::size_t>(stats.cached_tokens);
  const std::size_t prompt_tokens = watched.own_.prompt_tokens;
  Divergence divergence = std::move(watched.divergence_);
  // What the bank could have had: whole blocks, all but the last token.
  const auto usable = [&](std::size_t n) {
    return watched.block_tokens_ == 0
               ? 0
               : std::min(n, prompt_tokens - 1) / watched.block_tokens_ * watched.block_tokens_;
  };
  const bool is_whole = cached >= usable(prompt_tokens);
  if (watched.nearest_ && cached < usable(watched.common_)) {
    divergence = {.token = stats.cached_tokens,
                  .message = {},
                  .role = {},
                  .was = {},
                  .now = {},
                  .cause = "what was computed before is not in the bank any more"};
  }
  const bool is_told = !is_whole && !divergence.cause.empty();
  Line line{.tenant = watched.own_.salt.substr(0, watched.own_.salt.find('/')),
            .json = {{"request_id", watched.request_id_},
                     {"finished", Now()},
                     {"prompt_tokens", prompt_tokens},
                     {"from_memory", stats.memory_tokens()},
                     {"from_disk", stats.disk_tokens},
                     {"from_remote", stats.remote_tokens},
                     {"computed", prompt_tokens - cached},
                     {"completion_tokens", reply.tokens.size()},
                     {"divergence", is_told ? ToJson(divergence) : Json(nullptr)}}};
  spdlog::info(
      "[bank] id={} {} prompt tokens: {} from memory, {} from disk, {} from the shared tier, {} "
      "computed{}",
      watched.request_id_, prompt_tokens, stats.memory_tokens(), stats.disk_tokens,
      stats.remote_tokens, prompt_tokens - cached, is_told ? InWords(divergence) : "");
  watched.own_.tokens.insert(watched.own_.tokens.end(), reply.tokens.begin(), reply.tokens.end());
  watched.own_.reply_has_reasoning = reply.has_reasoning;
  const auto past = std::make_shared<const Past>(std::move(watched.own_));

  const std::lock_guard lock(mutex_);
  lines_.push_front(std::move(line));
  if (lines_.size() > kMaxLines) {
    lines_.pop_back();
  }
  past_tokens_ += past->tokens.size();
  past_.push_front(past);
  while (past_.size() > kMaxPast || (past_tokens_ > kMaxPastTokens && past_.size() > 1)) {
    past_tokens_ -= past_.back()->tokens.size();
    past_.pop_back();
  }
}

Json RequestLog::Latest(const std::string& tenant) const {
  Json list = Json::array();
  const std::lock_guard lock(mutex_);
  for (const Line& line : lines_) {
    if (line.tenant == tenant) {
      list.push_back(line.json);
    }
  }
  return list;
}

}  // namespace api
