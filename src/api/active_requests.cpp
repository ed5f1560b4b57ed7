#include "api/active_requests.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace api {

ActiveRequests::Entry::~Entry() {
  const std::lock_guard lock(all_.mutex_);
  all_.requests_.erase(request_);
}

ActiveRequests::Entry ActiveRequests::Enter(std::string tenant, std::vector<std::string> ids) {
  std::erase(ids, "");
  const std::lock_guard lock(mutex_);
  Request& request = requests_.emplace_back();
  request.tenant = std::move(tenant);
  request.ids = std::move(ids);
  return {*this, std::prev(requests_.end())};
}

bool ActiveRequests::Cancel(std::string_view tenant, std::string_view id) {
  bool found = false;
  const std::lock_guard lock(mutex_);
  for (Request& request : requests_) {
    if (request.tenant == tenant && std::ranges::find(request.ids, id) != request.ids.end()) {
      request.cancelled = true;
      found = true;
    }
  }
  return found;
}

}  // namespace api
