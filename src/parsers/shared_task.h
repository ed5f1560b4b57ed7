#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace parsers {

// A piece of a parser: a coroutine that reads its text as if all of it were there, and is suspended
// while the next part has not come. Started by co_await, which gives its value. `Start` is for the
// outermost one.
template <class T = bool>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<T> value{};
    std::exception_ptr failure{};
    std::coroutine_handle<> caller = std::noop_coroutine();

    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Return {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> handle) noexcept {
          return handle.promise().caller;
        }
        void await_resume() noexcept {}
      };
      return Return{};
    }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { failure = std::current_exception(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) {
      handle_.destroy();
    }
  }

  void Start() { handle_.resume(); }

  // Awaiting it.
  bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().caller = caller;
    return handle_;
  }
  T await_resume() {
    if (handle_.promise().failure) {
      std::rethrow_exception(handle_.promise().failure);
    }
    return std::move(*handle_.promise().value);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace parsers
