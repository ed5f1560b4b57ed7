#include "http/sse.h"

#include <fmt/format.h>

#include <algorithm>

namespace http {

std::string FormatEvent(std::string_view name, std::string_view data) {
  std::string event;
  if (!name.empty()) {
    event = fmt::format("event: {}\n", name);
  }
  while (true) {
    const std::size_t end = std::min(data.find_first_of("\r\n"), data.size());
    event += fmt::format("data: {}\n", data.substr(0, end));
    if (end == data.size()) {
      break;
    }
    const bool is_crlf = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
    data.remove_prefix(end + (is_crlf ? 2 : 1));
  }
  return event + "\n";
}

std::string FormatChunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace http
