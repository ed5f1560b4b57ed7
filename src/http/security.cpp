#include "http/security.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>

#include "http/api_handler.h"

namespace http {
namespace {

std::array<std::uint8_t, 32> Sha256(std::string_view text) {
  std::array<std::uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The key a request brings; empty: none.
std::string_view KeyOf(const api::ApiRequest& request) {
  constexpr std::string_view kBearer = "bearer ";
  if (const auto field = request.headers.find("authorization"); field != request.headers.end()) {
    std::string_view value = field->second;
    if (EqualsIgnoringCase(value.substr(0, kBearer.size()), kBearer)) {
      value.remove_prefix(kBearer.size());
      value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
      return value;
    }
  }
  const auto field = request.headers.find("x-api-key");
  return field == request.headers.end() ? std::string_view() : std::string_view(field->second);
}

bool IsLoopbackAddress(std::string_view text) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(text), error);
  return !error && address.is_loopback();
}

}  // namespace

KeyRing::KeyRing(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    digests_.push_back(Sha256(key));
  }
}

bool KeyRing::Admits(const api::ApiRequest& request, std::string& tenant) const {
  const std::string_view key = KeyOf(request);
  const Digest digest = Sha256(key);
  bool admitted = false;
  for (const Digest& known : digests_) {  // all of them: the time must not tell which one matched
    admitted |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0;
  }
  if (!admitted || key.empty()) {
    return false;
  }
  tenant.clear();
  for (std::size_t i = 0; i < 16; ++i) {
    tenant += fmt::format("{:02x}", digest[i]);
  }
  return true;
}

bool IsLocalHostHeader(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end != std::string_view::npos && IsLoopbackAddress(host.substr(1, end - 1));
  }
  const std::string_view name = host.substr(0, host.find(':'));
  return EqualsIgnoringCase(name, "localhost") || EqualsIgnoringCase(name, "localhost.") ||
         IsLoopbackAddress(name);
}

bool IsForeignOrigin(std::string_view origin) {
  const std::size_t colon = origin.find("://");
  if (colon == std::string_view::npos) {
    return true;
  }
  const std::string_view scheme = origin.substr(0, colon);
  return (EqualsIgnoringCase(scheme, "http") || EqualsIgnoringCase(scheme, "https")) &&
         !IsLocalHostHeader(origin.substr(colon + 3));
}

bool IsLoopback(const std::string& host) {
  return EqualsIgnoringCase(host, "localhost") || IsLoopbackAddress(host);
}

}  // namespace http
