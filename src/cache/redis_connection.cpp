#include "cache/redis_connection.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <hiredis/read.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <new>
#include <optional>
#include <span>
#include <utility>

namespace cache {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAtStop{50};
constexpr std::size_t kReadBytes = std::size_t{256} << 10U;
// Of the replies to AUTH and SELECT.
constexpr std::size_t kMaxGreeting = 4096;

tl::unexpected<RedisError> Broken(RedisError::Kind kind, std::string message) {
  return tl::unexpected<RedisError>(RedisError{.kind = kind, .message = std::move(message)});
}

// hiredis makes replies through these. What returns null is refused by its reader; nothing may
// throw through C.
template <class Fill>
void* Make(RedisReply::Kind kind, const Fill& fill) {
  auto* reply = new (std::nothrow) RedisReply{.kind = kind, .integer = 0, .text = {}};
  if (reply != nullptr) {
    try {
      fill(*reply);
    } catch (const std::bad_alloc&) {
      delete reply;  // NOLINT(cppcoreguidelines-owning-memory): hiredis owns by plain pointers
      return nullptr;
    }
  }
  return reply;
}

void* MakeText(const redisReadTask* task, char* text, std::size_t length) {
  const auto kind = task->type == REDIS_REPLY_ERROR    ? RedisReply::Kind::kError
                    : task->type == REDIS_REPLY_STATUS ? RedisReply::Kind::kStatus
                                                       : RedisReply::Kind::kBytes;
  return Make(kind, [&](RedisReply& reply) { reply.text.assign(text, length); });
}

// Kinds of RESP3, which newer versions of hiredis read.
template <class Functions>
void RefuseNewKinds(Functions& functions) {
  if constexpr (requires { functions.createDouble; }) {
    functions.createDouble = [](const redisReadTask*, double, char*, std::size_t) -> void* {
      return nullptr;
    };
    functions.createBool = [](const redisReadTask*, int) -> void* { return nullptr; };
  }
}

redisReplyObjectFunctions ReplyFunctions() {
  redisReplyObjectFunctions functions{};
  functions.createString = MakeText;
  // The count's type differs between versions of hiredis.
  functions.createArray = [](const redisReadTask* /*task*/, auto /*n*/) -> void* {
    return nullptr;
  };
  functions.createInteger = [](const redisReadTask* /*task*/, long long value) {
    return Make(RedisReply::Kind::kInteger, [&](RedisReply& reply) { reply.integer = value; });
  };
  functions.createNil = [](const redisReadTask* /*task*/) {
    return Make(RedisReply::Kind::kNothing, [](RedisReply&) {});
  };
  RefuseNewKinds(functions);
  functions.freeObject = [](void* reply) {
    delete static_cast<RedisReply*>(reply);  // NOLINT(cppcoreguidelines-owning-memory): as above
  };
  return functions;
}

struct FreeReader {
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};

std::string Encode(const std::vector<RedisCommand>& commands) {
  std::string bytes;
  for (const RedisCommand& command : commands) {
    std::vector<const char*> arguments;
    std::vector<std::size_t> lengths;
    for (const std::string_view argument : command) {
      arguments.push_back(argument.data());
      lengths.push_back(argument.size());
    }
    char* encoded = nullptr;
    const auto length = redisFormatCommandArgv(&encoded, static_cast<int>(arguments.size()),
                                               arguments.data(), lengths.data());
    if (length < 0) {
      throw std::bad_alloc();
    }
    const std::unique_ptr<char, decltype(&redisFreeCommand)> owner(encoded, &redisFreeCommand);
    bytes.append(encoded, static_cast<std::size_t>(length));
  }
  return bytes;
}

}  // namespace

struct RedisConnection::Impl {
  Impl(const RedisAddress& server, const std::atomic<bool>& stop_flag)
      : address(server), stop(stop_flag) {}

  [[nodiscard]] RedisResult<std::vector<RedisReply>> ConnectAndExchange(
      const std::vector<RedisCommand>& commands, SteadyClock::time_point deadline,
      std::size_t max_reply_bytes);
  [[nodiscard]] RedisResult<void> Connect(SteadyClock::time_point deadline);
  [[nodiscard]] RedisResult<std::vector<RedisReply>> Exchange(
      const std::vector<RedisCommand>& commands, SteadyClock::time_point deadline,
      std::size_t max_reply_bytes);
  [[nodiscard]] RedisResult<void> Receive(std::vector<RedisReply>& replies, std::size_t count,
                                          SteadyClock::time_point deadline,
                                          std::size_t max_reply_bytes);
  // Starts an operation and runs it to its end or the deadline.
  template <class Start, class Cancel>
  [[nodiscard]] RedisResult<void> Await(const char* doing, SteadyClock::time_point deadline,
                                        const Start& start, const Cancel& cancel);
  void Close();

  const RedisAddress& address;
  const std::atomic<bool>& stop;
  asio::io_context io{1};
  tcp::socket socket{io};
  redisReplyObjectFunctions functions = ReplyFunctions();
  std::unique_ptr<redisReader, FreeReader> reader;
  std::vector<char> buffer;
};

template <class Start, class Cancel>
RedisResult<void> RedisConnection::Impl::Await(const char* doing, SteadyClock::time_point deadline,
                                               const Start& start, const Cancel& cancel) {
  std::optional<boost::system::error_code> result;
  start([&result](boost::system::error_code error) { result = error; });
  io.restart();
  std::optional<RedisError::Kind> given_up;
  while (!result) {
    const SteadyClock::time_point now = SteadyClock::now();
    if (stop || now >= deadline) {
      given_up = stop ? RedisError::Kind::kStopping : RedisError::Kind::kTimeout;
      cancel();
      io.run();  // the operation ends now
      break;
    }
    io.run_until(std::min(deadline, now + kLookAtStop));
  }
  if (given_up) {
    return Broken(*given_up, fmt::format("{} took too long", doing));
  }
  if (*result) {
    return Broken(RedisError::Kind::kBroken, fmt::format("{}: {}", doing, result->message()));
  }
  return {};
}

void RedisConnection::Impl::Close() {
  boost::system::error_code ignored;
  socket.close(ignored);
  reader.reset();
}

RedisResult<void> RedisConnection::Impl::Connect(SteadyClock::time_point deadline) {
  tcp::resolver resolver(io);
  tcp::resolver::results_type found;
  RedisResult<void> done = Await(
      "resolving the name", deadline,
      [&](auto end) {
        resolver.async_resolve(address.host, std::to_string(address.port),
                               [&found, end](auto error, tcp::resolver::results_type results) {
                                 found = std::move(results);
                                 end(error);
                               });
      },
      [&] { resolver.cancel(); });
  if (!done) {
    return done;
  }
  done = Await(
      "connecting", deadline,
      [&](auto end) {
        asio::async_connect(socket, found,
                            [end](auto error, const tcp::endpoint& /*peer*/) { end(error); });
      },
      [&] { Close(); });
  if (!done) {
    return done;
  }
  boost::system::error_code ignored;  // a slower connection is one too
  socket.set_option(tcp::no_delay(true), ignored);
  reader.reset(redisReaderCreateWithFunctions(&functions));
  if (reader == nullptr) {
    throw std::bad_alloc();
  }
  std::vector<RedisCommand> greeting;
  if (!address.user.empty()) {
    greeting.push_back({"AUTH", address.user, address.password});
  } else if (!address.password.empty()) {
    greeting.push_back({"AUTH", address.password});
  }
  const std::string database = std::to_string(address.database);
  if (address.database != 0) {
    greeting.push_back({"SELECT", database});
  }
  const auto replies = Exchange(greeting, deadline, kMaxGreeting);
  if (!replies) {
    return tl::unexpected<RedisError>(replies.error());
  }
  for (const RedisReply& reply : *replies) {
    if (reply.kind != RedisReply::Kind::kStatus) {
      return Broken(RedisError::Kind::kRefused, reply.text);
    }
  }
  return {};
}

// Closes after an error.
RedisResult<std::vector<RedisReply>> RedisConnection::Impl::ConnectAndExchange(
    const std::vector<RedisCommand>& commands, SteadyClock::time_point deadline,
    std::size_t max_reply_bytes) {
  RedisResult<void> connected;
  if (reader == nullptr) {
    connected = Connect(deadline);
  }
  RedisResult<std::vector<RedisReply>> replies =
      connected ? Exchange(commands, deadline, max_reply_bytes)
                : tl::unexpected<RedisError>(connected.error());
  if (!replies) {
    Close();
  }
  return replies;
}

RedisResult<std::vector<RedisReply>> RedisConnection::Impl::Exchange(
    const std::vector<RedisCommand>& commands, SteadyClock::time_point deadline,
    std::size_t max_reply_bytes) {
  std::vector<RedisReply> replies;
  if (commands.empty()) {
    return replies;
  }
  const std::string bytes = Encode(commands);
  RedisResult<void> done = Await(
      "sending", deadline,
      [&](auto end) {
        asio::async_write(socket, asio::buffer(bytes),
                          [end](auto error, std::size_t /*n*/) { end(error); });
      },
      [&] { Close(); });
  if (done) {
    done = Receive(replies, commands.size(), deadline, max_reply_bytes);
  }
  if (!done) {
    return tl::unexpected<RedisError>(done.error());
  }
  return replies;
}

RedisResult<void> RedisConnection::Impl::Receive(std::vector<RedisReply>& replies,
                                                 std::size_t count,
                                                 SteadyClock::time_point deadline,
                                                 std::size_t max_reply_bytes) {
  buffer.resize(kReadBytes);
  std::size_t received = 0;
  while (replies.size() < count) {
    void* raw = nullptr;
    if (redisReaderGetReply(reader.get(), &raw) != REDIS_OK) {
      return Broken(RedisError::Kind::kBroken,
                    fmt::format("not a reply that was asked for ({})", reader->errstr));
    }
    if (raw != nullptr) {
      const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(raw));
      replies.push_back(std::move(*reply));
      continue;
    }
    std::size_t n = 0;
    RedisResult<void> done = Await(
        "waiting for a reply", deadline,
        [&](auto end) {
          socket.async_read_some(asio::buffer(buffer), [&n, end](auto error, std::size_t bytes) {
            n = bytes;
            end(error);
          });
        },
        [&] { Close(); });
    if (!done) {
      return done;
    }
    received += n;
    if (received > max_reply_bytes) {
      return Broken(RedisError::Kind::kBroken,
                    fmt::format("a reply of more than {} bytes", max_reply_bytes));
    }
    if (redisReaderFeed(reader.get(), buffer.data(), n) != REDIS_OK) {
      throw std::bad_alloc();
    }
  }
  return {};
}

RedisConnection::RedisConnection(const RedisAddress& address, const std::atomic<bool>& stop)
    : impl_(std::make_unique<Impl>(address, stop)) {}

RedisConnection::~RedisConnection() = default;

RedisResult<std::vector<RedisReply>> RedisConnection::Run(const std::vector<RedisCommand>& commands,
                                                          std::chrono::milliseconds timeout,
                                                          std::size_t max_reply_bytes) {
  const SteadyClock::time_point deadline = SteadyClock::now() + timeout;
  try {
    const bool was_open = impl_->reader != nullptr;
    RedisResult<std::vector<RedisReply>> replies =
        impl_->ConnectAndExchange(commands, deadline, max_reply_bytes);
    if (!replies && was_open && replies.error().kind == RedisError::Kind::kBroken) {
      // The server may have closed an idle connection or have been started anew.
      replies = impl_->ConnectAndExchange(commands, deadline, max_reply_bytes);
    }
    return replies;
  } catch (const std::bad_alloc&) {
    impl_->Close();
    return Broken(RedisError::Kind::kBroken, "there is no memory for a reply");
  }
}

}  // namespace cache
