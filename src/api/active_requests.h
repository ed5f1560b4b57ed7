#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace api {

// The requests of one model that are under way, so that one can be cancelled by its id.
// Thread-safe.
class ActiveRequests {
 private:
  struct Request {
    std::string tenant;
    std::vector<std::string> ids;
    std::atomic<bool> cancelled{false};
  };
  using Requests = std::list<Request>;

 public:
  // One of them, as long as this lives. The list outlives it.
  class Entry {
   public:
    Entry(ActiveRequests& all, Requests::iterator request) : all_(all), request_(request) {}
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    [[nodiscard]] bool cancelled() const { return request_->cancelled; }

   private:
    ActiveRequests& all_;
    Requests::iterator request_;
  };

  // `ids`: any of them names it; empty ones do not count.
  [[nodiscard]] Entry Enter(std::string tenant, std::vector<std::string> ids);

  // Whether the tenant has a request of this id under way; those that there are end within a step.
  bool Cancel(std::string_view tenant, std::string_view id);

 private:
  std::mutex mutex_;
  Requests requests_;
};

}  // namespace api
