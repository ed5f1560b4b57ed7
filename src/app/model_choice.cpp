#include "app/model_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <system_error>
#include <utility>

#include "model_files/end_tokens.h"
#include "model_files/library.h"
#include "model_files/opening.h"
#include "model_files/read_text_file.h"
#include "model_files/tokenizer_files.h"
#include "models/model.h"

namespace app {
namespace {

Result<ChosenModel> OnlyModel() {
  std::vector<model_files::FoundModel> servable;
  for (model_files::FoundModel& found : model_files::FindModels(models::KnownModelTypes())) {
    if (found.servable) {
      servable.push_back(std::move(found));
    }
  }
  if (servable.size() == 1) {
    return ChosenModel{.path = servable[0].path, .names = {servable[0].name}};
  }
  if (servable.empty()) {
    return Fail(ErrorCode::kModelNotFound,
                "No model was named and none that can be served was found; name a directory, a "
                ".gguf file, or put models into a folder named in EMBERBANK_MODELS.");
  }
  std::vector<std::string> names;
  for (const model_files::FoundModel& found : servable) {
    names.push_back(found.name);
  }
  return Fail(ErrorCode::kModelNotFound,
              fmt::format("No model was named and several can be served; name one of: {}.",
                          fmt::join(names, ", ")));
}

}  // namespace

Result<ChosenModel> ChooseModel(const std::string& name) {
  if (name.empty()) {
    return OnlyModel();
  }
  Result<std::filesystem::path> path = model_files::ResolveModel(name, models::KnownModelTypes());
  if (!path) {
    return Fail(path.error());
  }
  return ChosenModel{.path = std::move(*path), .names = {name}};
}

Result<model_files::ModelSource> OpenWithoutWeights(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return model_files::OpenModel(path);
  }
  Result<std::optional<Json>> config = model_files::ReadJsonObject(path / "config.json");
  if (!config) {
    return Fail(config.error());
  }
  Result<model_files::TokenizerFiles> tokenizer =
      model_files::ReadTokenizerFiles(model_files::OpenDepth::kAll, path);
  if (!tokenizer) {
    return Fail(tokenizer.error());
  }
  model_files::ModelSource source;
  source.path = path;
  source.name = std::filesystem::absolute(path, error).lexically_normal().filename().string();
  source.config = config->value_or(Json::object());
  source.model_type = source.config.value("model_type", "");
  source.tokenizer = std::move(*tokenizer);
  source.context_length = source.config.value("max_position_embeddings", std::int64_t{0});
  if (source.config.contains("eos_token_id")) {
    model_files::AddEndTokens(source.eos_token_ids, source.config["eos_token_id"]);
  }
  for (const std::int64_t id : model_files::FindEndTokens(source.tokenizer)) {
    model_files::AddEndToken(source.eos_token_ids, id);
  }
  return source;
}

}  // namespace app
