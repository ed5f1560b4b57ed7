#include "http/routes.h"

#include <array>
#include <optional>

#include "api/anthropic_messages.h"
#include "api/cache_admin.h"
#include "api/cancel_request.h"
#include "api/openai_chat.h"
#include "api/openai_completions.h"
#include "api/openai_models.h"
#include "api/openai_responses.h"
#include "api/tokenize.h"
#include "http/metrics.h"
#include "http/request_head.h"

namespace http {
namespace {

using Handler = void (*)(const RouteContext&, const api::ApiRequest&, api::Reply&);
using ApiFunction = void (*)(api::ModelManager&, const api::ApiRequest&, api::Reply&);

template <ApiFunction kFunction>
void Api(const RouteContext& context, const api::ApiRequest& request, api::Reply& reply) {
  kFunction(context.models, request, reply);
}

using StoreFunction = void (*)(api::ModelManager&, api::ResponseStore&, const api::ApiRequest&,
                               api::Reply&);

template <StoreFunction kFunction>
void Stored(const RouteContext& context, const api::ApiRequest& request, api::Reply& reply) {
  kFunction(context.models, context.responses, request, reply);
}

void Greet(const RouteContext& /*context*/, const api::ApiRequest& /*request*/, api::Reply& reply) {
  reply.SendText(200, "text/plain; charset=utf-8", "Emberbank is running. The API is below /v1.\n");
}

void Health(const RouteContext& /*context*/, const api::ApiRequest& /*request*/,
            api::Reply& reply) {
  reply.SendJson(200, {{"status", "ok"}});
}

void ShowMetrics(const RouteContext& context, const api::ApiRequest& /*request*/,
                 api::Reply& reply) {
  reply.SendText(200, "text/plain; version=0.0.4; charset=utf-8",
                 context.metrics.Text(context.models));
}

constexpr bool kNeedsKey = true;
constexpr bool kOpen = false;

// THE TABLE: what this server answers, and where.
constexpr std::array<Route, 21> kRoutes = {{
    {"GET", "/", &Greet, kOpen},
    {"GET", "/health", &Health, kOpen},
    {"GET", "/metrics", &ShowMetrics, kOpen},
    {"GET", "/v1/models", &Api<&api::ListModels>, kNeedsKey},
    {"GET", "/v1/models/{id}", &Api<&api::GetModel>, kNeedsKey},
    {"POST", "/v1/chat/completions", &Api<&api::ChatCompletions>, kNeedsKey},
    {"POST", "/v1/completions", &Api<&api::Completions>, kNeedsKey},
    {"POST", "/v1/responses", &Stored<&api::CreateResponse>, kNeedsKey},
    {"GET", "/v1/responses/{id}", &Stored<&api::GetResponse>, kNeedsKey},
    {"DELETE", "/v1/responses/{id}", &Stored<&api::DeleteResponse>, kNeedsKey},
    {"GET", "/v1/responses/{id}/input_items", &Stored<&api::ListInputItems>, kNeedsKey},
    {"POST", "/v1/responses/{id}/cancel", &Stored<&api::CancelResponse>, kNeedsKey},
    {"POST", "/v1/messages", &Api<&api::AnthropicMessages>, kNeedsKey},
    {"POST", "/v1/messages/count_tokens", &Api<&api::AnthropicCountTokens>, kNeedsKey},
    {"POST", "/v1/requests/{id}/cancel", &Api<&api::CancelRequest>, kNeedsKey},
    {"GET", "/v1/cache/stats", &Api<&api::CacheStats>, kNeedsKey},
    {"GET", "/v1/cache/requests", &Api<&api::ListRequests>, kNeedsKey},
    {"DELETE", "/v1/cache", &Api<&api::ClearCache>, kNeedsKey},
    {"POST", "/v1/cache/prefill", &Api<&api::PrefillCache>, kNeedsKey},
    {"POST", "/tokenize", &Api<&api::Tokenize>, kNeedsKey},
    {"POST", "/detokenize", &Api<&api::Detokenize>, kNeedsKey},
}};

// The parameters when `path` matches.
std::optional<std::map<std::string, std::string>> Match(std::string_view pattern,
                                                        std::string_view path) {
  const std::size_t brace = pattern.find('{');
  if (brace == std::string_view::npos) {
    return pattern == path ? std::optional(std::map<std::string, std::string>{}) : std::nullopt;
  }
  const std::size_t end = pattern.find('}', brace);
  const std::string_view rest = pattern.substr(end + 1);
  if (path.size() <= brace + rest.size() || !path.starts_with(pattern.substr(0, brace)) ||
      !path.ends_with(rest)) {
    return std::nullopt;
  }
  const std::string name(pattern.substr(brace + 1, end - brace - 1));
  const std::string_view value = path.substr(brace, path.size() - brace - rest.size());
  return std::map<std::string, std::string>{{name, PercentDecode(value)}};
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

RouteMatch FindRoute(std::string_view method, std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  RouteMatch match;
  for (const Route& route : kRoutes) {
    auto params = Match(route.pattern, path);
    if (!params) {
      continue;
    }
    match.allowed += std::string(route.method) + (route.method == "GET" ? ", HEAD, " : ", ");
    if (route.method == wanted) {
      match.route = &route;
      match.path_params = std::move(*params);
    }
  }
  if (!match.allowed.empty()) {
    match.allowed += "OPTIONS";
  }
  return match;
}

}  // namespace http
