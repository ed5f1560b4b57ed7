#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace api {

// Finds stop strings in a text that comes in pieces, whatever the borders of the pieces. The match
// that ends first wins; of those that end together, the one that begins first. Text that may be the
// beginning of a match is held back until that is decided.
class StopMatcher {
 public:
  // `stops` not empty strings; `include_match`: the matched text is given out too.
  StopMatcher(std::vector<std::string> stops, bool include_match);

  struct Piece {
    std::string text;        // what may be given out now
    bool stopped = false;    // a stop string was met: nothing comes after `text`
    std::string match = {};  // that string
  };
  // REQUIRES: nothing has stopped yet.
  [[nodiscard]] Piece Push(std::string_view text);
  // The text has ended: what was held back.
  [[nodiscard]] std::string Flush();

 private:
  [[nodiscard]] std::size_t HeldLength() const;

  std::vector<std::string> stops_;
  std::size_t longest_ = 0;
  bool include_match_;
  std::string held_;
};

}  // namespace api
