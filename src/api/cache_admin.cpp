#include "api/cache_admin.h"

#include <fmt/format.h>

#include <utility>

#include "api/generate.h"
#include "api/generation_fields.h"
#include "api/openai_messages.h"
#include "api/prompt.h"
#include "api/validation.h"

namespace api {
namespace {

Json DiskJson(const cache::SsdStats& disk) {
  return {{"usable", disk.usable},
          {"ready", disk.ready},
          {"directory_bytes", disk.used_bytes},
          {"budget_bytes", disk.budget_bytes},
          {"directory_files", disk.files},
          {"bytes", disk.own_bytes},
          {"blocks", disk.own_blocks},
          {"pending_write_bytes", disk.queued_bytes},
          {"read_ahead_bytes", disk.staged_bytes},
          {"written_bytes", disk.written_bytes},
          {"written_blocks", disk.written_blocks},
          {"dropped_blocks", disk.dropped_blocks},
          {"read_bytes", disk.read_bytes},
          {"read_blocks", disk.read_blocks},
          {"evicted_files", disk.evicted_files},
          {"damaged_files", disk.damaged_files},
          {"write_errors", disk.write_errors},
          {"read_errors", disk.read_errors},
          {"wear_bytes", disk.wear_bytes}};
}

Json RemoteJson(const cache::RemoteStats& remote) {
  return {{"server", remote.server},
          {"available", remote.available},
          {"lookups", remote.lookups},
          {"found_blocks", remote.found_blocks},
          {"pending_write_bytes", remote.queued_bytes},
          {"read_ahead_bytes", remote.staged_bytes},
          {"written_bytes", remote.written_bytes},
          {"written_blocks", remote.written_blocks},
          {"dropped_blocks", remote.dropped_blocks},
          {"read_bytes", remote.read_bytes},
          {"read_blocks", remote.read_blocks},
          {"missing_blocks", remote.missing_blocks},
          {"damaged_blocks", remote.damaged_blocks},
          {"timeouts", remote.timeouts},
          {"errors", remote.errors}};
}

Json StatsJson(const ServedModel& model) {
  const scheduler::SchedulerStats stats = model.scheduler->stats();
  const std::uint64_t memory_tokens =
      stats.cached_prompt_tokens - stats.disk_prompt_tokens - stats.remote_prompt_tokens;
  return {{"model", model.name},
          {"fingerprint", model.scheduler->facts().fingerprint},
          {"prompt_tokens",
           {{"total", stats.prompt_tokens},
            {"from_memory", memory_tokens},
            {"from_disk", stats.disk_prompt_tokens},
            {"from_remote", stats.remote_prompt_tokens},
            {"computed", stats.prompt_tokens - stats.cached_prompt_tokens}}},
          {"memory",
           {{"used_bytes", stats.cache.used_bytes},
            {"budget_bytes", stats.cache.budget_bytes},
            {"blocks", stats.cache.cached_blocks},
            {"hits", stats.cache.hits},
            {"misses", stats.cache.misses},
            {"evicted_blocks", stats.cache.evicted_blocks}}},
          {"disk", stats.cache.disk ? DiskJson(*stats.cache.disk) : Json(nullptr)},
          {"remote", stats.cache.remote ? RemoteJson(*stats.cache.remote) : Json(nullptr)}};
}

// The models that `body` means: the one named, else all.
Result<std::vector<ServedModel*>> ModelsOf(FieldReader& fields, ModelManager& models) {
  const std::optional<std::string> name = fields.String("model");
  if (!name || name->empty()) {
    return models.Models();
  }
  Result<ServedModel*> model = models.Find(*name);
  if (!model) {
    return Fail(model.error());
  }
  return std::vector{*model};
}

Result<Json> Clear(ModelManager& manager, const ApiRequest& request) {
  const Result<Json> body =
      request.body.empty() ? Result<Json>(Json::object()) : ParseBody(request.body);
  if (!body) {
    return Fail(body.error());
  }
  FieldReader fields(*body);
  const std::string tier = fields.String("tier").value_or("all");
  if (tier != "memory" && tier != "disk" && tier != "all") {
    fields.FailField("tier", fmt::format("must be \"memory\", \"disk\" or \"all\", got {}.",
                                         DumpJson(tier.substr(0, 40))));
  }
  if (fields.error()) {
    return Fail(*fields.error());
  }
  const Result<std::vector<ServedModel*>> models = ModelsOf(fields, manager);
  if (!models) {
    return Fail(models.error());
  }
  Json cleared = Json::array();
  for (ServedModel* model : *models) {
    model->scheduler->ClearCache({.memory = tier != "disk", .disk = tier != "memory"});
    cleared.push_back(model->name);
  }
  return Json{{"cleared", std::move(cleared)}, {"tier", tier}};
}

// The tokens that a chat or completion request with these fields would have as its prompt.
Result<GenerationInput> PromptOf(const Json& body, const ServedModel& model) {
  FieldReader fields(body);
  if (fields.Find("messages") != nullptr) {
    return InputOfMessages(body, model);
  }
  const std::optional<std::string> text = fields.String("prompt");
  if (!text) {
    fields.FailField("messages", "is missing: `messages` or `prompt` is expected.");
    return Fail(*fields.error());
  }
  Result<std::vector<TokenId>> tokens =
      model.tokenizer->Encode(*text, chat::Tokenizer::SpecialTokens::kParse, model.adds_bos);
  if (!tokens) {
    return Fail(tokens.error());
  }
  GenerationInput input;
  input.prompts.push_back(std::move(*tokens));
  return input;
}

class NoOutput final : public GenerationSink {
 public:
  void OnEvent(const ChoiceEvent& /*event*/) override {}
  void OnWaiting() override {}
};

Result<Json> Prefill(ModelManager& models, const ApiRequest& request, Reply& reply) {
  const Result<BodyAndModel> opened = OpenBody(models, request);
  if (!opened) {
    return Fail(opened.error());
  }
  const auto& [body, model] = *opened;
  FieldReader fields(body);
  GenerationOptions options{.max_tokens = 1, .parse_output = false};
  options.cache_salt = CacheSalt(fields, request);
  options.request_id = request.request_id;
  options.priority = scheduler::Priority::kBackground;  // nobody waits for its text
  if (fields.error()) {
    return Fail(*fields.error());
  }
  Result<GenerationInput> input = PromptOf(body, *model);
  if (!input) {
    return Fail(input.error());
  }
  NoOutput sink;
  const Result<Usage> usage = Generate(*model, std::move(*input), options, reply, sink);
  if (!usage) {
    return Fail(usage.error());
  }
  return Json{{"object", "cache.prefill"},
              {"model", model->name},
              {"prompt_tokens", usage->prompt_tokens},
              {"prompt_tokens_details", CachedTokensJson(*usage)}};
}

void Send(const Result<Json>& answer, Reply& reply) {
  if (answer) {
    reply.SendJson(200, *answer);
  } else {
    reply.SendError(answer.error());
  }
}

}  // namespace

void CacheStats(ModelManager& models, const ApiRequest& /*request*/, Reply& reply) {
  Json list = Json::array();
  for (const ServedModel* model : models.Models()) {
    list.push_back(StatsJson(*model));
  }
  reply.SendJson(200, {{"object", "cache.stats"}, {"models", std::move(list)}});
}

void ListRequests(ModelManager& models, const ApiRequest& request, Reply& reply) {
  Json list = Json::array();
  for (const ServedModel* model : models.Models()) {
    for (Json& line : model->requests.Latest(request.tenant)) {
      line["model"] = model->name;
      list.push_back(std::move(line));
    }
  }
  reply.SendJson(200, {{"object", "list"}, {"data", std::move(list)}});
}

void ClearCache(ModelManager& models, const ApiRequest& request, Reply& reply) {
  Send(Clear(models, request), reply);
}

void PrefillCache(ModelManager& models, const ApiRequest& request, Reply& reply) {
  Send(Prefill(models, request, reply), reply);
}

}  // namespace api
