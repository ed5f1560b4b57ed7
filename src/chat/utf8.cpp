#include "chat/utf8.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace chat {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  std::size_t length = 0;  // of the character; 0: no character starts so
  std::uint8_t second_min = 0x80;
  std::uint8_t second_max = 0xBF;
};

// Table 3-7 of Unicode 15, "Well-Formed UTF-8 Byte Sequences".
Lead LeadOf(std::uint8_t byte) {
  if (byte < 0x80) {
    return {.length = 1};
  }
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {.length = 2};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {.length = 3,
            .second_min = static_cast<std::uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            .second_max = static_cast<std::uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {.length = 4,
            .second_min = static_cast<std::uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            .second_max = static_cast<std::uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {};
}

// How many bytes at `at` are the beginning of one character, and whether they are all of it.
struct Part {
  std::size_t length = 0;
  bool whole = false;
};

Part PartAt(std::string_view bytes, std::size_t at) {
  const Lead lead = LeadOf(static_cast<std::uint8_t>(bytes[at]));
  if (lead.length == 0) {
    return {.length = 1};
  }
  std::size_t n = 1;
  while (n < lead.length && at + n < bytes.size()) {
    const auto byte = static_cast<std::uint8_t>(bytes[at + n]);
    const bool fits =
        n == 1 ? byte >= lead.second_min && byte <= lead.second_max : byte >= 0x80 && byte <= 0xBF;
    if (!fits) {
      break;
    }
    ++n;
  }
  return {.length = n, .whole = n == lead.length};
}

}  // namespace

std::string TakeUtf8(std::string& bytes, bool at_end) {
  std::string text;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Part part = PartAt(bytes, at);
    const bool may_go_on = !part.whole && at + part.length == bytes.size() &&
                           LeadOf(static_cast<std::uint8_t>(bytes[at])).length > 0;
    if (may_go_on && !at_end) {
      break;
    }
    text += part.whole ? std::string_view(bytes).substr(at, part.length) : kReplacement;
    at += part.length;
  }
  bytes.erase(0, at);
  return text;
}

}  // namespace chat
