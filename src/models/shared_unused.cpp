#include "models/shared_unused.h"

#include <algorithm>

#include "base/log.h"

namespace models {

void LogUnusedTensors(const model_files::ModelSource& source, std::string_view prefix,
                      std::string_view purpose) {
  const auto n = std::ranges::count_if(
      source.tensors, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  if (n > 0) {
    spdlog::info("`{}` holds {} tensors for {}, which are not used", source.name, n, purpose);
  }
}

}  // namespace models
