#pragma once

#include <string>
#include <string_view>

#include "parsers/parser.h"

namespace parsers {

// Where the machines put what they understood, with the rules about white space in one place:
// content is verbatim, but loses what touches a cut-out block at either end; reasoning is trimmed.
class Output {
 public:
  explicit Output(std::size_t id_length = 24) : id_length_(id_length) {}

  // Events go there until the next call; nullptr: nowhere.
  void SetSink(const EventSink* sink) { sink_ = sink; }

  void Text(std::string_view text);
  void Reasoning(std::string_view text);
  // A further block of reasoning follows on a new line.
  void EndReasoning();
  // `id`: the model's own; empty: one is made.
  void BeginCall(std::string name, std::string id = {});
  void Arguments(std::string_view fragment);
  // `whole`: nothing of it is missing, so no arguments are an empty object.
  void EndCall(bool whole = true);
  // The text has ended.
  void Finish();

  // Neither text nor a call was put out yet (reasoning may have been).
  [[nodiscard]] bool AtStart() const { return !has_text_ && calls_ == 0; }
  [[nodiscard]] int calls() const { return calls_; }
  // Is the last thing in the content an opening backtick or an unclosed code fence: is what follows
  // a quotation?
  [[nodiscard]] bool IsQuoting() const;

 private:
  void Emit(chat::StreamEvent event) const;
  void FollowQuotes(std::string_view text);

  std::size_t id_length_;
  const EventSink* sink_ = nullptr;
  std::string held_space_;  // of the content: emitted before more text
  bool has_text_ = false;
  bool has_reasoning_ = false;
  bool was_cut_ = false;  // a call was cut out
  // Of the content, for IsQuoting.
  bool in_fence_ = false;   // a line of ``` opened it
  std::string line_start_;  // three characters of its last line
  char last_ = '\n';
  std::string held_reasoning_space_;
  bool reasoning_ended_ = false;
  bool call_is_open_ = false;
  bool has_arguments_ = false;
  int calls_ = 0;
};

}  // namespace parsers
