#include "base/random_id.h"

#include <random>
#include <string_view>

std::string RandomId(std::size_t length) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<std::size_t> letter(0, kLetters.size() - 1);
  std::string id;
  for (std::size_t i = 0; i < length; ++i) {
    id += kLetters[letter(random)];
  }
  return id;
}
