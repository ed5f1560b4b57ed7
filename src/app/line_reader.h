#pragma once

#include <memory>
#include <optional>
#include <string>

namespace app {

// Lines that a person types, with editing and history (libedit) on a terminal, as they are
// elsewhere. One at a time in a process. SIGINT is taken over while it lives.
class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Outcome { kLine, kEnd, kInterrupted };
  struct Line {
    Outcome outcome = Outcome::kEnd;
    std::string text = {};  // without its newline
  };
  // The next line; kEnd at the end of the input, kInterrupted after Ctrl-C.
  [[nodiscard]] Line Next();

  // Has Ctrl-C been pressed since the last call?
  [[nodiscard]] bool TakeInterrupt();

  [[nodiscard]] bool is_terminal() const { return is_terminal_; }

 private:
  struct Editor;
  bool is_terminal_;
  std::unique_ptr<Editor> editor_;  // null without a terminal
};

}  // namespace app
