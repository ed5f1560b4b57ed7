#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <string>
#include <string_view>

namespace http {

// A blocking client that sends whatever bytes it is told, for tests.
class TestClient {
 public:
  explicit TestClient(int port) : socket_(io_) {
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"),
                     static_cast<boost::asio::ip::port_type>(port)});
  }

  void Send(std::string_view bytes) {
    boost::system::error_code ignored;
    boost::asio::write(socket_, boost::asio::buffer(bytes.data(), bytes.size()), ignored);
  }

  // Reads until `end` has come; returns everything up to and with it, or what came before the
  // connection ended or ten seconds had passed.
  std::string ReadUntil(std::string_view end) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (received_.find(end) == std::string::npos) {
      if (!ReadSome(deadline)) {
        return std::exchange(received_, {});
      }
    }
    const std::size_t length = received_.find(end) + end.size();
    std::string text = received_.substr(0, length);
    received_.erase(0, length);
    return text;
  }

  // One answer with a Content-Length: head and body.
  std::string ReadAnswer() {
    std::string answer = ReadUntil("\r\n\r\n");
    const std::size_t field = answer.find("Content-Length: ");
    if (field == std::string::npos) {
      return answer;
    }
    const std::size_t length = std::stoul(answer.substr(field + 16));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (received_.size() < length && ReadSome(deadline)) {
    }
    answer += received_.substr(0, length);
    received_.erase(0, std::min(length, received_.size()));
    return answer;
  }

  // All that comes until the server closes.
  std::string ReadToEnd() { return ReadUntil("\xff\xff never sent \xff\xff"); }

  // Has the server closed the connection (within ten seconds)?
  bool IsClosed() {
    ReadToEnd();
    return closed_;
  }

  void Close() { socket_.close(); }
  boost::asio::ip::tcp::socket& socket() { return socket_; }

 private:
  bool ReadSome(std::chrono::steady_clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable{.fd = socket_.native_handle(), .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) != 1) {
      return false;
    }
    char bytes[65536];
    boost::system::error_code error;
    const std::size_t n = socket_.read_some(boost::asio::buffer(bytes), error);
    if (error) {
      closed_ = true;
      return false;
    }
    received_.append(bytes, n);
    return true;
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  std::string received_;
  bool closed_ = false;
};

}  // namespace http
