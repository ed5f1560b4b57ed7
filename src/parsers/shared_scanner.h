#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "parsers/shared_task.h"

namespace parsers {

// No name of a tool or an id is longer, in bytes.
inline constexpr std::size_t kMaxName = 256;

// The reading end of a text that comes in pieces. Readers are coroutines (shared_task.h): they wait
// for text, never ask how much of it has come, and so read the same whatever the pieces were.
class Scanner {
 public:
  // --- the feeding end ---
  void Append(std::string_view text);
  void End();

  // --- the reading end ---
  // co_await Need(n): are there n more bytes? Waits until it is known.
  struct NeedAwaiter {
    Scanner& scanner;
    std::size_t n;
    [[nodiscard]] bool await_ready() const { return scanner.ended_ || scanner.available() >= n; }
    void await_suspend(std::coroutine_handle<> reader) const {
      scanner.reader_ = reader;
      scanner.needed_ = n;
    }
    [[nodiscard]] bool await_resume() const { return scanner.available() >= n; }
  };
  [[nodiscard]] NeedAwaiter Need(std::size_t n) { return {.scanner = *this, .n = n}; }

  // What has come and is not read yet; for decisions only up to what Need has promised.
  [[nodiscard]] std::size_t available() const { return text_.size() - position_; }
  [[nodiscard]] char operator[](std::size_t i) const { return text_[position_ + i]; }
  [[nodiscard]] std::string_view Peek(std::size_t n) const {
    return std::string_view(text_).substr(position_, n);
  }
  std::string_view Take(std::size_t n);

  // Does the literal come next? Waits only while it still may.
  Task<bool> Sees(std::string_view literal);
  // The same, and reads it.
  Task<bool> Accept(std::string_view literal);
  // Where the literal begins, from here; npos when it does not come. Reads nothing.
  Task<std::size_t> Find(std::string_view literal, std::size_t from = 0);
  // The text before the literal, which is read too. Nothing, and nothing is read, where it does not
  // come within kMaxName bytes.
  Task<std::optional<std::string>> ReadUntil(std::string_view literal);
  Task<bool> SkipSpace();  // true
  // Reads the literal where it comes next, after white space or at once; else reads nothing.
  Task<bool> AcceptAfterSpace(std::string_view literal);

  // A place to come back to. Valid until the next Commit.
  [[nodiscard]] std::size_t Mark() const { return position_; }
  void Rewind(std::size_t mark) { position_ = mark; }
  // Nobody comes back to what was read.
  void Commit();

 private:
  void Wake();

  std::string text_;
  std::size_t position_ = 0;
  bool ended_ = false;
  std::coroutine_handle<> reader_;
  std::size_t needed_ = 0;
};

[[nodiscard]] inline bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Without white space at either end.
[[nodiscard]] std::string_view Trimmed(std::string_view text);

}  // namespace parsers
