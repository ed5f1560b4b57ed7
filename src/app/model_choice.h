#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "model_files/model_source.h"

namespace app {

// A model that a command names, found.
struct ChosenModel {
  std::filesystem::path path;
  std::vector<std::string> names;  // as given, and as `emberbank models` lists it
};

// `name`: a path or a name; empty: the only model that is found and can be served. Errors
// (kModelNotFound) name what there is.
[[nodiscard]] Result<ChosenModel> ChooseModel(const std::string& name);

// A model without its weights, for scripts: configuration and tokenizer are enough. A file is
// opened as a whole.
[[nodiscard]] Result<model_files::ModelSource> OpenWithoutWeights(
    const std::filesystem::path& path);

}  // namespace app
