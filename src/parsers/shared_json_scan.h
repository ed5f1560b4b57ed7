#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace parsers {

// Follows one JSON value character by character: where it ends, and whether it is one. What models
// get wrong and what can mean one thing only is mended on the way: raw line breaks and tabs in
// strings, escapes that JSON does not have (\d, \').
class JsonScan {
 public:
  enum class Result {
    kMore,
    kDone,  // with this character
    kBad,   // this character cannot come here
  };

  // REQUIRES: the value is an object, an array or a string; no Result but kMore yet. Appends to
  // `out` what stands for the character in valid JSON; nothing when it is kBad.
  Result Push(char c, std::string& out);

 private:
  enum class Expect { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };
  enum class String { kNone, kPlain, kEscape, kHex };

  Result PushInString(char c, std::string& out);
  Result PushInScalar(char c, std::string& out);
  Result PushStructure(char c, std::string& out);
  Result Open(char c, std::string& out);
  Result Close(char c, std::string& out);
  Result AfterValue();

  std::vector<char> open_;  // '{' and '['
  Expect expect_ = Expect::kValue;
  String string_ = String::kNone;
  bool string_is_key_ = false;
  int hex_left_ = 0;
  std::string scalar_;  // a number or a word, so far
};

// Is it a number as JSON writes them, or true, false, null?
[[nodiscard]] bool IsJsonScalar(std::string_view text);

// `text` as the inside of a JSON string.
[[nodiscard]] std::string JsonEscaped(std::string_view text);

}  // namespace parsers
