#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace app {

// A server's address.
struct ServerUrl {
  std::string host;
  std::string port;
  std::string base;  // path in front of /v1, usually empty
};
// "http://host[:port][/base]", with or without "/v1" at its end. Errors (kInvalidRequest): anything
// else; https is not there yet.
[[nodiscard]] Result<ServerUrl> ParseServerUrl(const std::string& url);

struct HttpCall {
  std::string method = "GET";
  std::string path;  // "/v1/models"
  std::string body = {};
  std::string api_key = {};  // sent as a bearer token unless empty
};

// What came of it. A call that was cancelled has what came until then.
struct HttpAnswer {
  int status = 0;
  std::string body = {};  // empty where pieces were wanted and the status is 200
  bool cancelled = false;
};

// One request on a connection of its own. `on_piece`, unless empty, gets the body of a 200 as it
// arrives. `cancelled` is asked a few times a second; true closes the connection. Errors (kIo): the
// address and what happened.
[[nodiscard]] Result<HttpAnswer> Call(const ServerUrl& url, const HttpCall& call,
                                      const std::function<void(std::string_view)>& on_piece,
                                      const std::function<bool()>& cancelled);

}  // namespace app
