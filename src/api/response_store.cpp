#include "api/response_store.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace api {
namespace {

std::size_t SizeOf(const ResponseStore::Entry& entry) {
  return DumpJson(entry.input).size() + DumpJson(entry.response).size();
}

}  // namespace

void ResponseStore::Put(Entry entry) {
  Stored stored{.entry = std::move(entry)};
  stored.bytes = SizeOf(stored.entry);
  const std::string id = stored.entry.response["id"].get<std::string>();
  const std::lock_guard lock(mutex_);
  bytes_ += stored.bytes;
  order_.push_front(std::move(stored));
  by_id_[id] = order_.begin();
  while (bytes_ > max_bytes_ && !order_.empty()) {
    Erase(std::prev(order_.end()));
  }
}

std::optional<ResponseStore::Entry> ResponseStore::Get(const std::string& id,
                                                       const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  const auto found = Find(id, tenant);
  return found == order_.end() ? std::nullopt : std::optional(found->entry);
}

bool ResponseStore::Remove(const std::string& id, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  const auto found = Find(id, tenant);
  if (found == order_.end()) {
    return false;
  }
  Erase(found);
  return true;
}

std::optional<Json> ResponseStore::Conversation(const std::string& id, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  std::vector<Order::iterator> turns;
  for (std::string at = id; !at.empty(); at = turns.back()->entry.previous_id) {
    const auto found = Find(at, tenant);
    if (found == order_.end()) {
      return std::nullopt;
    }
    turns.push_back(found);
  }
  Json items = Json::array();
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    order_.splice(order_.begin(), order_, *turn);  // used
    const Entry& entry = (*turn)->entry;
    for (const Json* list : {&entry.input, &entry.response["output"]}) {
      items.insert(items.end(), list->begin(), list->end());
    }
  }
  return items;
}

ResponseStore::Order::iterator ResponseStore::Find(const std::string& id,
                                                   const std::string& tenant) {
  const auto found = by_id_.find(id);
  return found != by_id_.end() && found->second->entry.tenant == tenant ? found->second
                                                                        : order_.end();
}

void ResponseStore::Erase(Order::iterator stored) {
  bytes_ -= stored->bytes;
  by_id_.erase(stored->entry.response["id"].get<std::string>());
  order_.erase(stored);
}

}  // namespace api
