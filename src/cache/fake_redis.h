#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

// For tests: a Redis server of one database that can be told to misbehave.
namespace cache {

class FakeRedis {
 public:
  enum class Fault {
    kNone,
    kSilent,      // takes everything and answers nothing
    kSlow,        // each reply takes `slow_ms`
    kDrip,        // a byte every 20 ms
    kHangUp,      // closes after half a value
    kFlipped,     // a bit of each value is another
    kCut,         // values end early
    kOtherValue,  // answers with another key's value
    kForgets,     // says that it has values, and has none
    kFull,        // refuses to store
    kGarbage,     // not the protocol
    kEndless,     // a value that never ends
    kLists,       // answers with lists of lists
    kReadOnly,    // refuses every change
  };

  FakeRedis() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      std::abort();
    }
    port = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~FakeRedis() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    ::close(listener_);
    HangUpAll();
    accepting_.join();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  // Breaks every connection; new ones are taken.
  void HangUpAll() {
    const std::lock_guard lock(mutex_);
    for (const int client : clients_) {
      ::shutdown(client, SHUT_RDWR);
    }
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  [[nodiscard]] std::string LastTtl() const {
    const std::lock_guard lock(mutex_);
    return last_ttl_;
  }
  [[nodiscard]] std::map<std::string, std::string> values() const {
    const std::lock_guard lock(mutex_);
    return values_;
  }
  void Put(const std::string& name, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[name] = value;
  }

  int port = 0;
  std::atomic<Fault> fault = Fault::kNone;
  std::atomic<int> slow_ms = 0;
  std::atomic<int> commands = 0;
  std::atomic<int> gets = 0;
  std::string password;  // asked for when not empty; set before the first connection

 private:
  void Accept() {
    while (true) {
      const int client = ::accept(listener_, nullptr, nullptr);
      const std::lock_guard lock(mutex_);
      if (client < 0 || stopping_) {
        return;
      }
      clients_.insert(client);
      threads_.emplace_back([this, client] { Serve(client); });
    }
  }

  void Serve(int client) {
    const std::unique_ptr<redisReader, void (*)(redisReader*)> reader(redisReaderCreate(),
                                                                     redisReaderFree);
    std::vector<char> buffer(1 << 16);
    bool is_in = password.empty();
    while (true) {
      void* raw = nullptr;
      if (redisReaderGetReply(reader.get(), &raw) != REDIS_OK) {
        break;
      }
      if (raw == nullptr) {
        const ssize_t n = ::recv(client, buffer.data(), buffer.size(), 0);
        if (n <= 0) {
          break;
        }
        redisReaderFeed(reader.get(), buffer.data(), static_cast<std::size_t>(n));
        continue;
      }
      auto* command = static_cast<redisReply*>(raw);
      std::vector<std::string> words;
      for (std::size_t i = 0; i < command->elements; ++i) {
        words.emplace_back(command->element[i]->str,
                           static_cast<std::size_t>(command->element[i]->len));
      }
      freeReplyObject(command);
      if (!Answer(client, words, is_in)) {
        break;
      }
    }
    const std::lock_guard lock(mutex_);
    clients_.erase(client);
    ::close(client);
  }

  static std::string Bulk(const std::string& value) {
    return fmt::format("${}\r\n{}\r\n", value.size(), value);
  }

  bool Answer(int client, const std::vector<std::string>& words, bool& is_in) {
    ++commands;
    const Fault now = fault;
    if (words[0] == "AUTH") {
      is_in = words.back() == password;
      return Send(client, is_in ? "+OK\r\n" : "-WRONGPASS invalid password\r\n");
    }
    if (!is_in) {
      return Send(client, "-NOAUTH Authentication required.\r\n");
    }
    if (now == Fault::kSlow) {
      std::this_thread::sleep_for(std::chrono::milliseconds(slow_ms));
    }
    switch (now) {
      case Fault::kSilent:
        return true;
      case Fault::kGarbage:
        return Send(client, "HTTP/1.1 400 Bad Request\r\n\r\n");
      case Fault::kLists:
        return Send(client, "*1\r\n*1\r\n:1\r\n");
      case Fault::kReadOnly:
        if (words[0] != "GET" && words[0] != "EXISTS") {
          return Send(client, "-READONLY You can't write against a read only replica.\r\n");
        }
        break;
      default:
        break;
    }
    std::string answer = Execute(words, now);
    if (now == Fault::kDrip) {
      for (const char byte : answer) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (stopping_ || !Send(client, std::string(1, byte))) {
          return false;
        }
      }
      return true;
    }
    if (words[0] == "GET" && now == Fault::kHangUp) {
      Send(client, answer.substr(0, answer.size() / 2));
      ::shutdown(client, SHUT_RDWR);
      return false;
    }
    if (words[0] == "GET" && now == Fault::kEndless) {
      const std::string more(1 << 20, 'x');
      bool sent = Send(client, "$9000000000\r\n");
      while (sent && !stopping_) {
        sent = Send(client, more);
      }
      return false;
    }
    return Send(client, answer);
  }

  std::string Execute(const std::vector<std::string>& words, Fault now) {
    const std::lock_guard lock(mutex_);
    const auto found = words.size() > 1 ? values_.find(words[1]) : values_.end();
    const bool is_there = found != values_.end();
    if (words[0] == "GET") {
      ++gets;
      if (!is_there || now == Fault::kForgets) {
        return "$-1\r\n";
      }
      std::string value = found->second;
      if (now == Fault::kFlipped) {
        value[value.size() - 100] = static_cast<char>(value[value.size() - 100] ^ 1);
      } else if (now == Fault::kCut) {
        value.resize(value.size() / 2);
      } else if (now == Fault::kOtherValue) {
        value = (found == values_.begin() ? values_.rbegin()->second : values_.begin()->second);
      }
      return Bulk(value);
    }
    if (words[0] == "SET") {
      if (now == Fault::kFull) {
        return "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
      }
      values_[words[1]] = words[2];
      last_ttl_ = words.size() > 4 ? words[4] : "";
      return "+OK\r\n";
    }
    if (words[0] == "DEL") {
      return fmt::format(":{}\r\n", values_.erase(words[1]));
    }
    if (words[0] == "EXPIRE" || words[0] == "EXISTS") {
      return is_there ? ":1\r\n" : ":0\r\n";
    }
    return words[0] == "SELECT" ? "+OK\r\n" : "-ERR unknown command\r\n";
  }

  static bool Send(int client, const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
#ifdef MSG_NOSIGNAL
      const ssize_t n = ::send(client, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
#else
      const ssize_t n = ::send(client, bytes.data() + done, bytes.size() - done, 0);
#endif
      if (n <= 0) {
        return false;
      }
      done += static_cast<std::size_t>(n);
    }
    return true;
  }

  int listener_ = -1;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::string last_ttl_;
  std::set<int> clients_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace cache
