#pragma once

#include <memory>
#include <string>

#include "api/served_model.h"
#include "app/kernel_choice.h"
#include "app/options.h"
#include "base/clock.h"
#include "base/file_system.h"
#include "base/result.h"

namespace app {

struct LoadedModel {
  std::unique_ptr<api::ServedModel> served;
  std::string description;  // "SmolLM2 (llama, Q4_1, 94 MiB)"
};

// Finds the model, opens it, and makes tokenizer, template, engine and scheduler of it. Reports to
// stderr unless `quiet`. `clock` and `files` (of the disk cache) must outlive the model. Errors:
// one sentence for the person who typed the command.
[[nodiscard]] Result<LoadedModel> LoadModel(const ServeOptions& options,
                                            const KernelChoice& kernels, const Clock& clock,
                                            FileSystem& files, bool quiet);

}  // namespace app
