#include "http/server.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "http/connection.h"
#include "http/worker_pool.h"

namespace http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

struct Server::Impl {
  Impl(const ServerOptions& server_options, RequestHandler& handler)
      : options(server_options),
        io(options.io_threads),
        shared{.options = options, .handler = handler, .workers = workers},
        work(io.get_executor()),
        acceptor(asio::make_strand(io)) {}

  Result<void> Listen();
  asio::awaitable<void> Accept();
  void RunThread();
  void Add(tcp::socket socket);
  void StopAccepting();
  [[nodiscard]] std::vector<std::shared_ptr<Connection>> Open();

  const ServerOptions options;
  asio::io_context io;  // outlives every connection, which workers may be the last to hold
  WorkerPool workers;
  ServerShared shared;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  tcp::acceptor acceptor;
  int port = 0;
  bool is_down = false;

  std::mutex mutex;
  std::condition_variable ended;
  // Guarded by mutex. shared: a connection's coroutine owns it too, until it ends.
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections;
  std::uint64_t next_id = 0;

  std::vector<std::thread> threads;
};

Result<void> Server::Impl::Listen() {
  boost::system::error_code error;
  const auto fail = [&] {
    return Fail(ErrorCode::kIo, fmt::format("Cannot listen on {}:{}: {}.", options.host,
                                            options.port, error.message()));
  };
  tcp::resolver resolver(io);
  const auto endpoints =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || endpoints.empty()) {
    return fail();
  }
  tcp::endpoint endpoint = endpoints.begin()->endpoint();
  for (const auto& candidate : endpoints) {
    if (candidate.endpoint().address().is_v4()) {
      endpoint = candidate.endpoint();  // of a name that has both, what most clients try first
      break;
    }
  }
  acceptor.open(endpoint.protocol(), error);
  if (!error) {
    acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  }
  if (!error) {
    acceptor.bind(endpoint, error);
  }
  if (!error) {
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (!error) {
    port = acceptor.local_endpoint(error).port();
  }
  if (error) {
    return fail();
  }
  return {};
}

asio::awaitable<void> Server::Impl::Accept() {
  while (acceptor.is_open()) {
    boost::system::error_code error;
    std::string problem;
    try {
      tcp::socket socket = co_await acceptor.async_accept(
          asio::make_strand(io), asio::redirect_error(asio::use_awaitable, error));
      if (!error) {
        Add(std::move(socket));
      } else if (error != asio::error::operation_aborted && acceptor.is_open()) {
        problem = error.message();  // out of file descriptors, mostly
      }
    } catch (const std::exception& failure) {  // out of memory: this one is lost, not the server
      problem = failure.what();
    }
    if (!problem.empty()) {
      spdlog::warn("accepting a connection failed: {}", problem);
      asio::steady_timer pause(acceptor.get_executor(), kAcceptPause);  // some may end meanwhile
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

// One of the threads that read and write. What a handler throws is that connection's misfortune.
void Server::Impl::RunThread() {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& failure) {
      spdlog::error("serving a connection failed: {}", failure.what());
    }
  }
}

void Server::Impl::Add(tcp::socket socket) {
  auto connection = std::make_shared<Connection>(std::move(socket), shared);
  std::uint64_t id = 0;
  bool is_full = false;
  {
    const std::lock_guard lock(mutex);
    id = next_id++;
    is_full = connections.size() >= static_cast<std::size_t>(options.max_connections);
    connections.emplace(id, connection);
  }
  auto on_end = [this, id] {
    const std::lock_guard lock(mutex);
    connections.erase(id);
    ended.notify_all();
  };
  if (is_full) {
    connection->StartRefusing(std::move(on_end));
  } else {
    connection->Start(std::move(on_end));
  }
}

// Returns when no further connection can be added.
void Server::Impl::StopAccepting() {
  std::promise<void> closed;
  asio::post(acceptor.get_executor(), [&] {
    boost::system::error_code ignored;
    acceptor.close(ignored);
    closed.set_value();
  });
  closed.get_future().wait();
}

std::vector<std::shared_ptr<Connection>> Server::Impl::Open() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Connection>> open;
  for (const auto& [id, connection] : connections) {
    open.push_back(connection);
  }
  return open;
}

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                              RequestHandler& handler) {
  auto impl = std::make_unique<Impl>(options, handler);
  if (Result<void> listening = impl->Listen(); !listening) {
    return Fail(listening.error());
  }
  asio::co_spawn(impl->acceptor.get_executor(), impl->Accept(), asio::detached);
  for (int i = 0; i < options.io_threads; ++i) {
    impl->threads.emplace_back([&impl_ref = *impl] { impl_ref.RunThread(); });
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));  // NOLINT: private constructor
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { Shutdown(std::chrono::steady_clock::now()); }

int Server::port() const { return impl_->port; }

void Server::Shutdown(std::chrono::steady_clock::time_point deadline) {
  Impl& impl = *impl_;
  if (std::exchange(impl.is_down, true)) {
    return;
  }
  impl.shared.draining = true;
  impl.StopAccepting();
  for (const auto& connection : impl.Open()) {
    connection->Drain();
  }
  const auto all_ended = [&] { return impl.connections.empty(); };
  bool done = false;
  {
    std::unique_lock lock(impl.mutex);
    done = impl.ended.wait_until(lock, deadline, all_ended);
  }
  if (!done) {
    for (const auto& connection : impl.Open()) {
      connection->Abort();
    }
    std::unique_lock lock(impl.mutex);
    impl.ended.wait(lock, all_ended);
  }
  impl.work.reset();
  impl.io.stop();
  for (std::thread& thread : impl.threads) {
    thread.join();
  }
}

}  // namespace http
