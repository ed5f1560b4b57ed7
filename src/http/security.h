#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/reply.h"

namespace http {

// The keys of --api-key, kept and compared as SHA-256, in constant time.
class KeyRing {
 public:
  explicit KeyRing(const std::vector<std::string>& keys);

  [[nodiscard]] bool empty() const { return digests_.empty(); }
  // Does `Authorization: Bearer` or `x-api-key` bring one of the keys? Then `tenant` is set to what
  // tells it from other keys without giving it away.
  [[nodiscard]] bool Admits(const api::ApiRequest& request, std::string& tenant) const;

 private:
  using Digest = std::array<std::uint8_t, 32>;

  std::vector<Digest> digests_;
};

// Does a Host header name this machine as seen from itself: localhost, 127.x.x.x or [::1], with or
// without a port?
[[nodiscard]] bool IsLocalHostHeader(std::string_view host);

// Does an Origin header name a web page from elsewhere: http or https of a host that is not local,
// or "null", which any page can have? Other schemes are programs that the user has installed.
[[nodiscard]] bool IsForeignOrigin(std::string_view origin);

}  // namespace http
