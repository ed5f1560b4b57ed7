#include "app/server_app.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "app/key_file.h"
#include "app/settings.h"
#include "base/bytes.h"
#include "base/json.h"
#include "base/log.h"

namespace app {
namespace {

constexpr std::size_t kLongestNameShown = 200;

}  // namespace

ServerApp::ServerApp(ServeOptions options, const KernelChoice& kernels)
    : options_(std::move(options)), kernels_(kernels) {}

ServerApp::~ServerApp() = default;

Result<std::unique_ptr<ServerApp>> ServerApp::Start(const ServeOptions& options,
                                                    const KernelChoice& kernels, bool quiet) {
  std::unique_ptr<ServerApp> app(new ServerApp(options, kernels));
  for (const std::string& flag : options.without_effect) {
    spdlog::info("{}", SayWithoutEffect(flag));
  }
  if (!options.api_key_file.empty()) {
    const Result<std::vector<std::string>> keys = ReadKeyFile(options.api_key_file);
    if (!keys) {
      return Fail(keys.error());
    }
    std::ranges::copy(*keys, std::back_inserter(app->options_.api_keys));
  }
  Result<LoadedModel> model = LoadModel(app->options_, kernels, app->clock_, *app->files_, quiet);
  if (!model) {
    return Fail(model.error());
  }
  app->model_ = std::move(*model);
  app->handler_ = std::make_unique<http::ApiHandler>(
      http::ApiHandlerOptions{.api_keys = app->options_.api_keys,
                              .loopback_only = http::IsLoopback(options.host)},
      *app);
  http::ServerOptions listening{.host = options.host, .port = options.port};
  if (options.max_request_bytes > 0) {
    listening.max_body_bytes = options.max_request_bytes;
  }
  Result<std::unique_ptr<http::Server>> server = http::Server::Start(listening, *app->handler_);
  if (!server) {
    return Fail(server.error());
  }
  app->server_ = std::move(*server);
  return app;
}

Result<api::ServedModel*> ServerApp::Find(const std::string& name) {
  api::ServedModel& served = *model_.served;
  if (name == served.name || std::ranges::find(served.aliases, name) != served.aliases.end()) {
    return &served;
  }
  return Fail(ErrorCode::kModelNotFound,
              fmt::format("The model `{}{}` does not exist; this server has `{}`.",
                          name.substr(0, kLongestNameShown),
                          name.size() > kLongestNameShown ? "..." : "", served.name),
              "model");
}

std::vector<api::ServedModel*> ServerApp::Models() { return {model_.served.get()}; }

std::string ServerApp::address() const {
  const bool is_ipv6 = options_.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", is_ipv6 ? "[" : "", options_.host, is_ipv6 ? "]" : "",
                     server_->port());
}

std::string ServerApp::Banner() const {
  const api::ServedModel& served = *model_.served;
  const scheduler::Scheduler::EngineFacts& facts = served.scheduler->facts();
  const bool chats = !served.chat_template->is_fallback();
  Json body = {{"model", served.name}};
  if (chats) {
    body["messages"] = {{{"role", "user"}, {"content", "Name three colors."}}};
  } else {
    body["prompt"] = "The capital of France is";
    body["max_tokens"] = 16;
  }
  const std::string key = options_.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  return fmt::format(
      "Emberbank {} is ready.\n"
      "  address  {}\n"
      "  model    {}\n"
      "  context  {} tokens\n"
      "  kernels  {}\n"
      "  memory   {} weights, up to {} KV cache\n"
      "  try      curl {}/v1/{} -H 'Content-Type: application/json'{} -d '{}'\n",
      EMBERBANK_VERSION, address(), model_.description, served.context_length, Describe(kernels_),
      FormatBytes(facts.weight_bytes), FormatBytes(facts.kv_budget_bytes), address(),
      chats ? "chat/completions" : "completions", key, DumpJson(body));
}

void ServerApp::Drain(std::chrono::seconds patience) {
  const Clock::TimePoint deadline = clock_.Now() + patience;
  // Both at once: open connections hear at once that nothing new is taken.
  std::thread draining([&] { model_.served->scheduler->Drain(deadline); });
  server_->Shutdown(deadline);
  draining.join();
}

}  // namespace app
