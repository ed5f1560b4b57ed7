#include "parsers/shared_scanner.h"

#include <algorithm>
#include <utility>

namespace parsers {
namespace {

// Less is not worth moving the rest for.
constexpr std::size_t kWorthCutting = 4096;

}  // namespace

void Scanner::Append(std::string_view text) {
  text_ += text;
  Wake();
}

void Scanner::End() {
  ended_ = true;
  Wake();
}

void Scanner::Wake() {
  if (reader_ && (ended_ || available() >= needed_)) {
    std::exchange(reader_, nullptr).resume();
  }
}

std::string_view Scanner::Take(std::size_t n) {
  const std::string_view taken = std::string_view(text_).substr(position_, n);
  position_ += taken.size();
  return taken;
}

Task<bool> Scanner::Sees(std::string_view literal) {
  for (std::size_t i = 0; i < literal.size(); ++i) {
    const bool is_there = co_await Need(i + 1);
    if (!is_there || (*this)[i] != literal[i]) {
      co_return false;
    }
  }
  co_return true;
}

Task<bool> Scanner::Accept(std::string_view literal) {
  const bool sees = co_await Sees(literal);
  if (sees) {
    position_ += literal.size();
  }
  co_return sees;
}

Task<std::size_t> Scanner::Find(std::string_view literal, std::size_t from) {
  while (true) {
    const std::size_t at = std::string_view(text_).find(literal, position_ + from);
    if (at != std::string_view::npos) {
      co_return at - position_;
    }
    // Only what comes next can complete it.
    if (available() >= literal.size()) {
      from = std::max(from, available() - literal.size() + 1);
    }
    const bool more = co_await Need(available() + 1);
    if (!more) {
      co_return std::string_view::npos;
    }
  }
}

Task<std::optional<std::string>> Scanner::ReadUntil(std::string_view literal) {
  while (true) {
    const std::size_t at = Peek(kMaxName + literal.size()).find(literal);
    if (at != std::string_view::npos) {
      std::string text(Take(at));
      position_ += literal.size();
      co_return text;
    }
    const bool may_come = available() < kMaxName + literal.size();
    const bool more = may_come && co_await Need(available() + 1);
    if (!more) {
      co_return std::nullopt;
    }
  }
}

Task<bool> Scanner::SkipSpace() {
  while (true) {
    const bool more = co_await Need(1);
    if (!more || !IsSpace((*this)[0])) {
      co_return true;
    }
    ++position_;
  }
}

Task<bool> Scanner::AcceptAfterSpace(std::string_view literal) {
  const std::size_t mark = Mark();
  co_await SkipSpace();
  const bool accepted = co_await Accept(literal);
  if (!accepted) {
    Rewind(mark);
  }
  co_return accepted;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && IsSpace(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

void Scanner::Commit() {
  if (position_ >= kWorthCutting) {
    text_.erase(0, position_);
    position_ = 0;
  }
}

}  // namespace parsers
