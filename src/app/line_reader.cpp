#include "app/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <iostream>
#include <memory>

namespace app {
namespace {

// A signal handler has nothing but globals.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<bool> g_interrupted{false};

void NoteInterrupt(int /*signal*/) { g_interrupted = true; }

char* Prompt(EditLine* /*editor*/) {
  static std::array<char, 3> prompt = {'>', ' ', '\0'};
  return prompt.data();
}

// libedit's own reader goes on after a signal; this one ends the line.
int ReadCharacter(EditLine* /*editor*/, wchar_t* out) {
  std::mbstate_t state{};
  while (true) {
    char byte = 0;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n == 0) {
      return 0;
    }
    if (n < 0) {
      if (errno == EINTR && !g_interrupted) {
        continue;
      }
      return -1;
    }
    const std::size_t used = std::mbrtowc(out, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-1)) {
      state = {};
      *out = static_cast<unsigned char>(byte);
      return 1;
    }
    if (used != static_cast<std::size_t>(-2)) {
      return 1;
    }
  }
}

}  // namespace

struct LineReader::Editor {
  struct EndEditor {
    void operator()(EditLine* editor) const { el_end(editor); }
  };
  struct EndHistory {
    void operator()(History* list) const { history_end(list); }
  };
  std::unique_ptr<History, EndHistory> list{history_init()};
  std::unique_ptr<EditLine, EndEditor> line{el_init("emberbank", stdin, stdout, stderr)};

  Editor() {
    constexpr int kHistoryLines = 1000;
    HistEvent event;
    history(list.get(), &event, H_SETSIZE, kHistoryLines);
    el_set(line.get(), EL_PROMPT, &Prompt);
    el_set(line.get(), EL_EDITOR, "emacs");
    el_set(line.get(), EL_HIST, &history, list.get());
    el_set(line.get(), EL_GETCFN, &ReadCharacter);
    el_source(line.get(), nullptr);  // ~/.editrc
  }
};

LineReader::LineReader() : is_terminal_(isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
  struct sigaction action{};
  action.sa_handler = &NoteInterrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);  // without SA_RESTART: a read at the prompt ends
  if (is_terminal_) {
    std::setlocale(LC_CTYPE, "");
    editor_ = std::make_unique<Editor>();
  }
}

LineReader::~LineReader() { std::signal(SIGINT, SIG_DFL); }

bool LineReader::TakeInterrupt() { return g_interrupted.exchange(false); }

LineReader::Line LineReader::Next() {
  if (!editor_) {
    std::string text;
    if (std::getline(std::cin, text)) {
      return {.outcome = Outcome::kLine, .text = text};
    }
    return {.outcome = TakeInterrupt() ? Outcome::kInterrupted : Outcome::kEnd};
  }
  int size = 0;
  const char* typed = el_gets(editor_->line.get(), &size);
  if (TakeInterrupt()) {
    el_reset(editor_->line.get());
    return {.outcome = Outcome::kInterrupted};
  }
  if (typed == nullptr || size <= 0) {
    return {.outcome = Outcome::kEnd};
  }
  std::string text(typed, static_cast<std::size_t>(size));
  while (text.ends_with('\n') || text.ends_with('\r')) {
    text.pop_back();
  }
  if (!text.empty()) {
    HistEvent event;
    history(editor_->list.get(), &event, H_ENTER, text.c_str());
  }
  return {.outcome = Outcome::kLine, .text = text};
}

}  // namespace app
