#include "parsers/shared_output.h"

#include <utility>

#include "base/random_id.h"

namespace parsers {
namespace {

constexpr std::string_view kSpace = " \n\t\r";
constexpr std::string_view kFence = "```";

std::size_t TrailingSpaceBegins(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace

void Output::Emit(chat::StreamEvent event) const {
  if (sink_ != nullptr) {
    (*sink_)(event);
  }
}

void Output::Text(std::string_view text) {
  if (!has_text_ && was_cut_) {  // what a block left behind
    const std::size_t first = text.find_first_not_of(kSpace);
    text = text.substr(first == std::string_view::npos ? text.size() : first);
  }
  const std::size_t space = TrailingSpaceBegins(text);
  if (space > 0) {
    std::string whole = std::exchange(held_space_, {});
    whole += text.substr(0, space);
    FollowQuotes(whole);
    has_text_ = true;
    Emit(chat::TextDelta{.text = std::move(whole)});
  }
  held_space_ += text.substr(space);
}

void Output::FollowQuotes(std::string_view text) {
  for (const char c : text) {
    if (c == '\n') {
      in_fence_ = in_fence_ != (line_start_ == kFence);
      line_start_.clear();
    } else if (line_start_.size() < kFence.size()) {
      line_start_ += c;
    }
    last_ = c;
  }
}

bool Output::IsQuoting() const {
  const bool line_has_ended = held_space_.find('\n') != std::string::npos;
  const bool in_fence = in_fence_ != (line_has_ended && line_start_ == kFence);
  return in_fence || (held_space_.empty() && last_ == '`');
}

void Output::Reasoning(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    if (has_reasoning_ && !reasoning_ended_) {
      held_reasoning_space_ += text;
    }
    return;
  }
  std::string whole;
  if (std::exchange(reasoning_ended_, false)) {
    held_reasoning_space_.clear();
    if (has_reasoning_) {
      whole.push_back('\n');
    }
    text = text.substr(first);
  } else if (!has_reasoning_) {
    text = text.substr(first);
  } else {
    whole = std::exchange(held_reasoning_space_, {});
  }
  const std::size_t space = TrailingSpaceBegins(text);
  whole += text.substr(0, space);
  held_reasoning_space_ = text.substr(space);
  has_reasoning_ = true;
  Emit(chat::ReasoningDelta{.text = std::move(whole)});
}

void Output::EndReasoning() { reasoning_ended_ = true; }

void Output::BeginCall(std::string name, std::string id) {
  was_cut_ = true;
  call_is_open_ = true;
  has_arguments_ = false;
  // Letters and digits only: some clients strip the rest.
  Emit(chat::ToolCallBegin{.index = calls_,
                           .id = id.empty() ? RandomId(id_length_) : std::move(id),
                           .name = std::move(name)});
  ++calls_;
}

void Output::Arguments(std::string_view fragment) {
  if (!fragment.empty()) {
    has_arguments_ = true;
    Emit(chat::ToolArgumentsDelta{.index = calls_ - 1, .fragment = std::string(fragment)});
  }
}

void Output::EndCall(bool whole) {
  if (!std::exchange(call_is_open_, false)) {
    return;
  }
  if (whole && !has_arguments_) {
    Arguments("{}");
  }
  Emit(chat::ToolCallEnd{.index = calls_ - 1});
}

void Output::Finish() {
  EndCall();
  if (!was_cut_ && !held_space_.empty()) {
    Emit(chat::TextDelta{.text = std::exchange(held_space_, {})});
  }
}

}  // namespace parsers
