#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/usage.h"
#include "base/json.h"
#include "base/result.h"

namespace api {

// A request as the protocols see it: no socket.
struct ApiRequest {
  std::string method;                              // "POST"
  std::string path;                                // without query
  std::map<std::string, std::string> path_params;  // {"id": "smollm2"} of /v1/models/{id}, decoded
  std::map<std::string, std::string> headers;      // lower-case names
  std::string body;
  std::string request_id;  // X-Request-Id given, or made
  std::string tenant;      // made of the API key; empty when the server asks for none
};

// Where a protocol answers. Implemented by http/. Used by the one thread that runs the handler;
// exactly one of SendJson, SendText, SendError or BeginEvents..EndEvents is called.
class Reply {
 public:
  Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  virtual ~Reply() = default;

  virtual void SendJson(int status, const Json& body) = 0;
  virtual void SendText(int status, std::string_view content_type, std::string_view body) = 0;
  // Status and Retry-After of the error; body as the protocol of the request's path wants it.
  virtual void SendError(const Error& error) = 0;

  // Server-sent events. Data and names are single-line. The functions return when the bytes are
  // handed to the system (back-pressure), or at once when the client has left.
  virtual void BeginEvents() = 0;
  virtual void SendEvent(std::string_view data) = 0;
  virtual void SendNamedEvent(std::string_view name, std::string_view data) = 0;
  // A comment that keeps proxies and clients awake; a no-op before BeginEvents.
  virtual void KeepAlive() = 0;
  virtual void EndEvents() = 0;

  // For the access log and the metrics; at most once.
  virtual void ReportUsage(const Usage& usage) = 0;

  [[nodiscard]] virtual bool client_gone() const = 0;
};

}  // namespace api
