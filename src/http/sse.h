#pragma once

#include <string>
#include <string_view>

namespace http {

// Server-sent events as bytes (WHATWG HTML, "Server-sent events"). Line breaks inside `data` become
// further data lines, so that no data can end its event.
[[nodiscard]] std::string FormatEvent(std::string_view name, std::string_view data);

// A comment; clients ignore it.
inline constexpr std::string_view kKeepAliveComment = ": keepalive\n\n";

// One chunk of a chunked body (RFC 9112, 7.1). REQUIRES: `bytes` not empty.
[[nodiscard]] std::string FormatChunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace http
