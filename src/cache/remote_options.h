#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cache {

// A Redis or Valkey server and the database in it.
struct RedisAddress {
  std::string host;
  int port = 6379;
  std::string user = {};      // empty: the default user
  std::string password = {};  // empty: nobody is asked for one
  int database = 0;

  // For people; without the password.
  [[nodiscard]] std::string Label() const;
};

// redis://[user:password@]host[:port][/database]; user and password percent-encoded, an IPv6
// address in brackets. Errors (kInvalidRequest) name what is wrong and never the password.
[[nodiscard]] Result<RedisAddress> ParseRedisUrl(std::string_view url);

// How the shared tier is set up.
struct RemoteOptions {
  RedisAddress address;
  std::chrono::seconds ttl{0};  // of a block since its last use; 0: until the server evicts it
  // Of a connection, of a lookup, and of a value's first bytes; a large value has longer.
  std::chrono::milliseconds timeout{500};
  std::string fingerprint;                 // of the engine, 64 hex digits: the namespace
  std::vector<std::uint64_t> group_bytes;  // of a block, [layer group]
  // As in SsdOptions.
  std::uint64_t write_queue_bytes = std::uint64_t{128} << 20U;
  std::uint64_t read_ahead_bytes = std::uint64_t{64} << 20U;
};

}  // namespace cache
