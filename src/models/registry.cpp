#include <algorithm>

#include "models/model.h"

namespace models {

const ModelFamily* FindFamily(std::string_view model_type) {
  for (const ModelFamily* family : All()) {
    if (std::ranges::find(family->model_types, model_type) != family->model_types.end()) {
      return family;
    }
  }
  return nullptr;
}

std::vector<std::string_view> KnownModelTypes() {
  std::vector<std::string_view> types;
  for (const ModelFamily* family : All()) {
    types.insert(types.end(), family->model_types.begin(), family->model_types.end());
  }
  return types;
}

}  // namespace models
