#include "cache/remote_options.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

namespace cache {
namespace {

constexpr std::string_view kScheme = "redis://";
constexpr int kMaxPort = 65535;
constexpr int kMaxDatabase = 1 << 20;

std::optional<int> ParseCount(std::string_view text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
    return std::nullopt;
  }
  return value;
}

// "%40" -> "@".
std::optional<std::string> PercentDecode(std::string_view text) {
  constexpr std::size_t kDigits = 2;
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::string_view hex = text.substr(i + 1, kDigits);
    unsigned char byte = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16);
    if (hex.size() != kDigits || error != std::errc() || end != hex.data() + hex.size()) {
      return std::nullopt;
    }
    decoded += static_cast<char>(byte);
    i += kDigits;
  }
  return decoded;
}

tl::unexpected<Error> Wrong(std::string_view what) {
  return Fail(ErrorCode::kInvalidRequest,
              fmt::format("A shared cache is named redis://[user:password@]host[:port][/database]: "
                          "{}.",
                          what));
}

}  // namespace

std::string RedisAddress::Label() const { return fmt::format("{}:{}/{}", host, port, database); }

Result<RedisAddress> ParseRedisUrl(std::string_view url) {
  if (!url.starts_with(kScheme)) {
    return Wrong("it does not begin with redis:// (TLS is not supported)");
  }
  std::string_view rest = url.substr(kScheme.size());
  RedisAddress address;
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view credentials = rest.substr(0, at);
    const std::size_t colon = credentials.find(':');
    const auto user = PercentDecode(credentials.substr(0, colon));
    const auto password = PercentDecode(
        colon == std::string_view::npos ? std::string_view() : credentials.substr(colon + 1));
    if (!user || !password) {
      return Wrong("a % in the user or the password is not followed by two hex digits");
    }
    if (!user->empty() && password->empty()) {
      return Wrong("the user has no password");
    }
    address.user = *user;
    address.password = *password;
    rest.remove_prefix(at + 1);
  }
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view number = rest.substr(slash + 1);
    const auto database = number.empty() ? 0 : ParseCount(number, kMaxDatabase);
    if (!database) {
      return Wrong("the database is not a number");
    }
    address.database = *database;
    rest = rest.substr(0, slash);
  }
  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) {
      return Wrong("a [ has no ]");
    }
    address.host = rest.substr(1, close - 1);
    port = rest.substr(close + 1);
  } else {
    const std::size_t colon = rest.find(':');
    address.host = rest.substr(0, colon);
    port = colon == std::string_view::npos ? std::string_view() : rest.substr(colon);
  }
  if (address.host.empty()) {
    return Wrong("the host is missing");
  }
  if (!port.empty()) {
    const auto number = port.front() == ':' ? ParseCount(port.substr(1), kMaxPort) : std::nullopt;
    if (!number || *number == 0) {
      return Wrong("the port is not a number from 1 to 65535");
    }
    address.port = *number;
  }
  return address;
}

}  // namespace cache
