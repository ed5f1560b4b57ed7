#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cache/remote_options.h"

namespace cache {

// A command and its arguments; the bytes belong to the caller.
using RedisCommand = std::vector<std::string_view>;

// Other kinds (lists) are not asked for and are taken for a broken server.
struct RedisReply {
  enum class Kind { kStatus, kError, kInteger, kBytes, kNothing };
  Kind kind = Kind::kNothing;
  std::int64_t integer = 0;
  std::string text;  // of the status, error or bytes
};

struct RedisError {
  enum class Kind {
    kTimeout,   // no connection, or no whole reply, in time
    kBroken,    // refused, closed, or not the protocol
    kRefused,   // password or database were not accepted
    kStopping,  // `stop` was set meanwhile
  };
  Kind kind = Kind::kBroken;
  std::string message;  // without the password
};
template <class T>
using RedisResult = tl::expected<T, RedisError>;

// One connection, made when it is first needed and again after it broke. Every wait ends at its
// deadline or soon after `stop` is set, whatever the server does; only resolving a host's name is
// bound by the system's own limits. Not thread-safe.
class RedisConnection {
 public:
  // Both must outlive it.
  RedisConnection(const RedisAddress& address, const std::atomic<bool>& stop);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Sends the commands and returns their replies in order, all within `timeout`. Replies of more
  // than `max_reply_bytes` together are an error. When a connection that was open breaks, they are
  // sent once more on a new one, so sending them twice must do no harm. After an error the connection is closed: late
  // replies cannot be taken for those of later commands.
  [[nodiscard]] RedisResult<std::vector<RedisReply>> Run(const std::vector<RedisCommand>& commands,
                                                         std::chrono::milliseconds timeout,
                                                         std::size_t max_reply_bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cache
