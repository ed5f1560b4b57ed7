#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/json.h"

namespace api {

// Answers of /v1/responses that a later request may name. In memory, bounded; the one used longest
// ago goes first. Each holds its own turn only and the name of the turn before. Thread-safe.
class ResponseStore {
 public:
  struct Entry {
    std::string tenant{};
    std::string previous_id{};       // empty: the conversation begins here
    Json input = Json::array();      // items
    Json response = Json::object();  // with `id` and `output`
  };

  explicit ResponseStore(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  void Put(Entry entry);
  // Nothing where there is none of that name that the tenant may see.
  [[nodiscard]] std::optional<Entry> Get(const std::string& id, const std::string& tenant);
  bool Remove(const std::string& id, const std::string& tenant);
  // The items of the whole conversation up to and including `id`; nothing when a turn is missing.
  [[nodiscard]] std::optional<Json> Conversation(const std::string& id, const std::string& tenant);

 private:
  static constexpr std::size_t kMaxBytes = 128U << 20U;

  struct Stored {
    Entry entry;
    std::size_t bytes = 0;
  };
  using Order = std::list<Stored>;  // the one used last comes first

  [[nodiscard]] Order::iterator Find(const std::string& id, const std::string& tenant);
  void Erase(Order::iterator stored);

  std::mutex mutex_;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  Order order_;
  std::unordered_map<std::string, Order::iterator> by_id_;
};

}  // namespace api
