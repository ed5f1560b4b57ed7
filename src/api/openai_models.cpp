#include "api/openai_models.h"

namespace api {
namespace {

// The context length under each name that a client may look for: max_model_len is vLLM's.
Json ModelJson(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "emberbank"},
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
