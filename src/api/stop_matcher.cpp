#include "api/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace api {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_match)
    : stops_(std::move(stops)), include_match_(include_match) {
  for (const std::string& stop : stops_) {
    longest_ = std::max(longest_, stop.size());
  }
}

StopMatcher::Piece StopMatcher::Push(std::string_view text) {
  if (stops_.empty()) {
    return {.text = std::string(text)};
  }
  held_ += text;
  std::size_t begin = std::string::npos;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos) {
      continue;
    }
    const std::size_t stop_end = at + stop.size();
    if (end == std::string::npos || stop_end < end || (stop_end == end && at < begin)) {
      begin = at;
      end = stop_end;
    }
  }
  if (end != std::string::npos) {
    Piece piece{.text = held_.substr(0, include_match_ ? end : begin),
                .stopped = true,
                .match = held_.substr(begin, end - begin)};
    held_.clear();
    return piece;
  }
  const std::size_t free = held_.size() - HeldLength();
  Piece piece{.text = held_.substr(0, free)};
  held_.erase(0, free);
  return piece;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

// Length of the longest end of held_ that begins a stop string. It never splits a character: a
// stop string is whole UTF-8, so its beginning is one.
std::size_t StopMatcher::HeldLength() const {
  for (std::size_t length = std::min(longest_ - 1, held_.size()); length > 0; --length) {
    const std::string_view tail = std::string_view(held_).substr(held_.size() - length);
    if (std::ranges::any_of(stops_, [&](const std::string& s) { return s.starts_with(tail); })) {
      return length;
    }
  }
  return 0;
}

}  // namespace api
