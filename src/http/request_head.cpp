#include "http/request_head.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <utility>

namespace http {
namespace {

constexpr std::size_t kMaxRequestIdLength = 128;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool IsPlain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ||
         c == ':';
}

}  // namespace

api::ApiRequest ToApiRequest(
    const boost::beast::http::request_header<boost::beast::http::fields>& header) {
  api::ApiRequest request;
  request.method = std::string(header.method_string());
  for (const auto& field : header) {
    auto [entry, is_new] =
        request.headers.try_emplace(LowerCase(field.name_string()), std::string(field.value()));
    if (!is_new) {
      entry->second += ", ";
      entry->second += field.value();
    }
  }
  std::string_view target(header.target().data(), header.target().size());
  // "GET http://host/path": the host in the target is the one that counts (RFC 9112, 3.2.2).
  if (target.starts_with("http://")) {
    target.remove_prefix(7);
    const std::size_t slash = std::min(target.find_first_of("/?"), target.size());
    request.headers["host"] = std::string(target.substr(0, slash));
    target.remove_prefix(slash);
  }
  request.path = std::string(target.substr(0, target.find_first_of("?#")));
  if (request.path.empty()) {
    request.path.assign(1, '/');
  }
  const auto id = request.headers.find("x-request-id");
  request.request_id = RequestId(id == request.headers.end() ? std::string() : id->second);
  return request;
}

std::string RequestId(std::string_view given) {
  if (!given.empty() && given.size() <= kMaxRequestIdLength &&
      std::ranges::all_of(given, IsPlain)) {
    return std::string(given);
  }
  static constexpr std::string_view kDigits = "0123456789abcdef";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id = "req-";
  for (int i = 0; i < 24; ++i) {
    id += kDigits[random() % kDigits.size()];
  }
  return id;
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
        HexDigit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace http
