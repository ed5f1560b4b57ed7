#pragma once

#include <string>

namespace chat {

// Takes from the front of `bytes` all that is text by now: whole UTF-8 characters, and U+FFFD for
// each maximal part that can never become one (Unicode 15, section 3.9, "U+FFFD Substitution of
// Maximal Subparts": what Python and Rust do). A character that is not complete stays in `bytes`,
// or becomes U+FFFD when `at_end`.
[[nodiscard]] std::string TakeUtf8(std::string& bytes, bool at_end);

}  // namespace chat
