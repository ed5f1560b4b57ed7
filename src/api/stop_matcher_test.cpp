#include "api/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>

namespace api {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;

  bool operator==(const Outcome&) const = default;
};

// The slow, obvious twin: grows the text by a byte at a time and looks whether a stop string ends
// there.
Outcome Slow(const std::vector<std::string>& stops, const std::string& text, bool include) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) {
      return {.text = text.substr(0, include ? end : end - longest), .stopped = true};
    }
  }
  return {.text = text, .stopped = false};
}

Outcome Match(const std::vector<std::string>& stops, const std::vector<std::string>& pieces,
              bool include) {
  StopMatcher matcher(stops, include);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    StopMatcher::Piece out = matcher.Push(piece);
    outcome.text += out.text;
    if (out.stopped) {
      outcome.stopped = true;
      return outcome;
    }
  }
  outcome.text += matcher.Flush();
  return outcome;
}

TEST(StopMatcher, AHeldBeginningThatTurnsOutHarmlessIsGivenOut) {
  StopMatcher matcher({"\nUser:"}, false);
  EXPECT_EQ(matcher.Push("one\nUser").text, "one");
  EXPECT_EQ(matcher.Push("s two\nUs").text, "\nUsers two");
  EXPECT_EQ(matcher.Push("er").text, "");
  const StopMatcher::Piece last = matcher.Push(": three");
  EXPECT_TRUE(last.stopped);
  EXPECT_EQ(last.text, "");
}

TEST(StopMatcher, NothingIsHeldWithoutNeed) {
  StopMatcher matcher({"abc"}, false);
  EXPECT_EQ(matcher.Push("xyz").text, "xyz");
  EXPECT_EQ(matcher.Push("ab").text, "");
  EXPECT_EQ(matcher.Push("ab").text, "ab");
  EXPECT_EQ(matcher.Flush(), "ab");
}

TEST(StopMatcher, TheMatchThatEndsFirstWins) {
  EXPECT_EQ(Match({"abcd", "bc"}, {"xabcd"}, false).text, "xa");
  EXPECT_EQ(Match({"bc", "abc"}, {"xabc"}, false).text, "x");
  EXPECT_EQ(Match({"bc"}, {"xabcd"}, true).text, "xabc");
}

RC_GTEST_PROP(StopMatcher, AnySplitGivesWhatTheSlowTwinGives, ()) {
  // Few letters, so that matches and near misses are common.
  const auto letter = rc::gen::element('a', 'b', 'c');
  const auto word = rc::gen::nonEmpty(rc::gen::container<std::string>(letter));
  const auto stops = *rc::gen::resize(5, rc::gen::container<std::vector<std::string>>(word));
  const auto pieces = *rc::gen::container<std::vector<std::string>>(
      rc::gen::resize(6, rc::gen::container<std::string>(letter)));
  const bool include = *rc::gen::arbitrary<bool>();
  std::string text;
  for (const std::string& piece : pieces) {
    text += piece;
  }
  const Outcome slow = Slow(stops, text, include);
  const Outcome fast = Match(stops, pieces, include);
  RC_ASSERT(fast.text == slow.text);
  RC_ASSERT(fast.stopped == slow.stopped);
}

}  // namespace
}  // namespace api
