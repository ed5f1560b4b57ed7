#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/served_model.h"
#include "http/server.h"

namespace http {

struct ApiHandlerOptions {
  std::vector<std::string> api_keys = {};  // none: everybody is served
  // Listening on loopback only: then, without keys, foreign Host and Origin headers are refused, so
  // that no web page can reach the server, under a name of its own (DNS rebinding) or blindly.
  bool loopback_only = true;
};

// The server's own handler: the routes of routes.h, keys, hosts, access log, metrics.
class ApiHandler final : public RequestHandler {
 public:
  // `models` must outlive this.
  ApiHandler(ApiHandlerOptions options, api::ModelManager& models);
  ~ApiHandler() override;

  [[nodiscard]] std::optional<EarlyAnswer> Check(api::ApiRequest& head) override;
  void Answer(const api::ApiRequest& request, api::Reply& reply) override;
  void OnFinished(const AnswerRecord& record) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Is `host` (an address or name to listen on) reachable from this machine only?
[[nodiscard]] bool IsLoopback(const std::string& host);

}  // namespace http
