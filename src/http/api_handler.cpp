#include "http/api_handler.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "http/metrics.h"
#include "http/routes.h"
#include "http/security.h"

namespace http {
namespace {

constexpr std::size_t kLongestPathShown = 200;

EarlyAnswer Refusal(int status, ErrorCode code, std::string message) {
  return {.status = status,
          .error = Error{.code = code, .message = std::move(message), .param = {}}};
}

std::string Shown(std::string_view text) {
  return std::string(text.substr(0, kLongestPathShown)) +
         (text.size() > kLongestPathShown ? "..." : "");
}

}  // namespace

struct ApiHandler::Impl {
  Impl(ApiHandlerOptions handler_options, api::ModelManager& model_manager)
      : options(std::move(handler_options)), models(model_manager), keys(options.api_keys) {}

  // Who may reach a server that everybody on this machine may use: its programs, not the web pages
  // in its browser.
  [[nodiscard]] std::optional<EarlyAnswer> CheckSource(const api::ApiRequest& head) const {
    if (!keys.empty() || !options.loopback_only) {
      return std::nullopt;
    }
    auto refusal = CheckHost(head);
    return refusal ? refusal : CheckOrigin(head);
  }

  // A browser sends a page's POST of plain text anywhere without asking: its answer stays hidden
  // from the page, but what it starts would run.
  [[nodiscard]] static std::optional<EarlyAnswer> CheckOrigin(const api::ApiRequest& head) {
    const auto origin = head.headers.find("origin");
    if (origin == head.headers.end() || !IsForeignOrigin(origin->second)) {
      return std::nullopt;
    }
    return Refusal(403, ErrorCode::kForbidden,
                   fmt::format("The Origin header names {}, but this server listens on loopback "
                               "without a key and serves no pages from elsewhere.",
                               Shown(origin->second)));
  }

  // A page of a foreign site can have its own name point to 127.0.0.1 and so read local answers;
  // its requests carry that name as Host.
  [[nodiscard]] static std::optional<EarlyAnswer> CheckHost(const api::ApiRequest& head) {
    const auto host = head.headers.find("host");
    if (host == head.headers.end() || IsLocalHostHeader(host->second)) {
      return std::nullopt;
    }
    return Refusal(403, ErrorCode::kForbidden,
                   fmt::format("The Host header names {}, but this server listens on loopback "
                               "without a key and serves local names only.",
                               Shown(host->second)));
  }

  const ApiHandlerOptions options;
  api::ModelManager& models;
  const KeyRing keys;
  Metrics metrics;
  api::ResponseStore responses;
};

ApiHandler::ApiHandler(ApiHandlerOptions options, api::ModelManager& models)
    : impl_(std::make_unique<Impl>(std::move(options), models)) {}

ApiHandler::~ApiHandler() = default;

std::optional<EarlyAnswer> ApiHandler::Check(api::ApiRequest& head) {
  if (auto refusal = impl_->CheckSource(head)) {
    return refusal;
  }
  RouteMatch match = FindRoute(head.method, head.path);
  if (match.allowed.empty()) {
    return Refusal(404, ErrorCode::kNotFound,
                   fmt::format("There is no {} here.", Shown(head.path)));
  }
  if (head.method == "OPTIONS") {
    return EarlyAnswer{.status = 204, .allow = match.allowed};
  }
  if (match.route == nullptr) {
    EarlyAnswer refusal = Refusal(405, ErrorCode::kMethodNotAllowed,
                                  fmt::format("{} answers to {}, not to {}.", Shown(head.path),
                                              match.allowed, Shown(head.method)));
    refusal.allow = match.allowed;
    return refusal;
  }
  if (match.route->needs_key && !impl_->keys.empty() && !impl_->keys.Admits(head, head.tenant)) {
    return Refusal(401, ErrorCode::kUnauthorized,
                   "The API key is missing or wrong: send one as `Authorization: Bearer KEY` or "
                   "`x-api-key: KEY`.");
  }
  head.path_params = std::move(match.path_params);
  return std::nullopt;
}

void ApiHandler::Answer(const api::ApiRequest& request, api::Reply& reply) {
  const RouteMatch match = FindRoute(request.method, request.path);
  match.route->handler(
      {.models = impl_->models, .metrics = impl_->metrics, .responses = impl_->responses}, request,
      reply);
}

// Neither prompts nor replies nor keys.
void ApiHandler::OnFinished(const AnswerRecord& record) {
  const api::ApiRequest& request = record.request;
  const RouteMatch match = FindRoute(request.method, request.path);
  impl_->metrics.Count(match.route == nullptr ? "other" : match.route->pattern, record);
  std::string line = fmt::format("{} {} {} {:.0f} ms", Shown(request.method), Shown(request.path),
                                 record.status, record.duration_ms);
  if (record.usage) {
    line += fmt::format(" prompt={} cached={} disk={} remote={} completion={} ttft={:.0f} ms",
                        record.usage->prompt_tokens, record.usage->cached_tokens,
                        record.usage->disk_tokens, record.usage->remote_tokens,
                        record.usage->completion_tokens, record.usage->ttft_ms);
  }
  if (record.client_gone) {
    line += " client-gone";
  }
  spdlog::info("{} id={}", line, request.request_id);
}

}  // namespace http
