#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "api/reply.h"
#include "api/response_store.h"
#include "api/served_model.h"

namespace http {

class Metrics;

// What handlers get besides the request.
struct RouteContext {
  api::ModelManager& models;
  const Metrics& metrics;
  api::ResponseStore& responses;
};

struct Route {
  std::string_view method;
  // Literal, but for one part {name}, which takes what the rest leaves of the path, slashes
  // included. Of several that match, the last counts.
  std::string_view pattern;
  void (*handler)(const RouteContext& context, const api::ApiRequest& request, api::Reply& reply);
  bool needs_key;  // where the server has keys
};

[[nodiscard]] std::span<const Route> Routes();

struct RouteMatch {
  const Route* route = nullptr;                         // null: none with that method
  std::map<std::string, std::string> path_params = {};  // percent-decoded
  std::string allowed = {};  // methods of the path, "GET, HEAD, OPTIONS"; empty: no such path
};

// HEAD is served by the GET route.
[[nodiscard]] RouteMatch FindRoute(std::string_view method, std::string_view path);

}  // namespace http
