#include "api/openai_models.h"

#include <fmt/chrono.h>

#include <ctime>

namespace api {
namespace {

std::string Iso8601(std::int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

// The context length under each name that a client may look for: max_model_len is vLLM's. OpenAI's
// and Anthropic's fields together.
Json ModelJson(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "emberbank"},
          {"type", "model"},
          {"display_name", model.name},
          {"created_at", Iso8601(model.created)},
          {"max_model_len", model.context_length},
          {"context_length", model.context_length},
          {"context_window", model.context_length}};
}

}  // namespace

void ListModels(ModelManager& models, const ApiRequest& /*request*/, Reply& reply) {
  Json data = Json::array();
  for (const ServedModel* model : models.Models()) {
    data.push_back(ModelJson(*model));
  }
  reply.SendJson(200, {{"object", "list"}, {"data", std::move(data)}});
}

void GetModel(ModelManager& models, const ApiRequest& request, Reply& reply) {
  const auto id = request.path_params.find("id");
  const Result<ServedModel*> model =
      models.Find(id == request.path_params.end() ? std::string() : id->second);
  if (model) {
    reply.SendJson(200, ModelJson(**model));
  } else {
    reply.SendError(model.error());
  }
}

}  // namespace api
