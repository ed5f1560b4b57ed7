#include "api/normalize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace api {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

// One line of " name=value;", at least one.
bool IsAttributionHeader(std::string_view block) {
  std::string_view text = Trimmed(block);
  if (!TakePrefix(text, "x-anthropic-billing-header:") || text.empty()) {
    return false;
  }
  while (!text.empty()) {
    const std::size_t end = text.find(';');
    if (text.front() != ' ' || end == std::string_view::npos) {
      return false;
    }
    const std::string_view pair = text.substr(1, end - 1);
    const std::size_t equals = pair.find('=');
    const auto names = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    if (equals == 0 || equals == std::string_view::npos ||
        !std::ranges::all_of(pair.substr(0, equals), names) ||
        pair.find('\n') != std::string_view::npos) {
      return false;
    }
    text.remove_prefix(end + 1);
  }
  return true;
}

// Claude Code wraps some of its messages in a reminder.
bool IsTokensLeft(std::string_view block) {
  constexpr std::string_view kReminderEnd = "</system-reminder>";
  std::string_view text = Trimmed(block);
  if (TakePrefix(text, "<system-reminder>")) {
    if (!text.ends_with(kReminderEnd)) {
      return false;
    }
    text = Trimmed(text.substr(0, text.size() - kReminderEnd.size()));
  }
  constexpr std::string_view kEnd = " tokens left</total_tokens>";
  if (!TakePrefix(text, "<total_tokens>") || !text.ends_with(kEnd)) {
    return false;
  }
  const std::string_view count = text.substr(0, text.size() - kEnd.size());
  return count == "Infinite" || (!count.empty() && std::ranges::all_of(count, [](char c) {
           return c >= '0' && c <= '9';
         }));
}

struct Rule {
  std::string_view profile;
  std::string_view name;
  bool (*matches)(std::string_view block);
};
constexpr std::array<Rule, 2> kRules = {
    {{"claude-code", "attribution header", &IsAttributionHeader},
     {"claude-code", "tokens left", &IsTokensLeft}}};

}  // namespace

Result<Normalizer> Normalizer::Make(std::string_view name) {
  Normalizer normalizer;
  normalizer.name_ = name;
  if (name == "auto" || name == "off" ||
      std::ranges::find(kRules, name, &Rule::profile) != kRules.end()) {
    return normalizer;
  }
  return Fail(ErrorCode::kInvalidRequest,
              fmt::format("--normalize must be auto, off or claude-code, got \"{}\".", name));
}

std::string Normalizer::RuleFor(std::string_view block) const {
  for (const Rule& rule : kRules) {
    if ((name_ == "auto" || name_ == rule.profile) && rule.matches(block)) {
      return fmt::format("{}: {}", rule.profile, rule.name);
    }
  }
  return {};
}

}  // namespace api
