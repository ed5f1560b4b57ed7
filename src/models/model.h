#pragma once

#include <mlx/array.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model_files/model_source.h"
#include "models/weight_loader.h"
#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/step_batch.h"

namespace models {

// A loaded model of one family. Used by the engine thread only.
class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  // What each layer keeps between steps (dtype and budget are filled in by the engine).
  [[nodiscard]] virtual ops::KvStoreSpec kv_spec() const = 0;
  [[nodiscard]] virtual int vocab_size() const = 0;

  // One ragged step: returns the logits [logit_rows, vocab_size] float32 and adds K and V of all
  // rows to the blocks of `store` when evaluated.
  [[nodiscard]] virtual mlx::core::array Forward(const ops::StepBatch& batch,
                                                 ops::KvStore& store) = 0;
};

// The whole contract of a family's file: models/<model_type>.cpp defines
//   namespace models::<file name> { extern constinit const ModelFamily kFamily{...}; }
// and cmake/registry.cmake puts it into All().
struct ModelFamily {
  // model_type values of config.json that it loads.
  std::span<const std::string_view> model_types;
  // Chat template used when the files carry none (a base model); said once in the log.
  std::string_view fallback_chat_template;
  // Errors (kBadModel) name the config field or the tensor: missing, surplus, wrong shape,
  // unsupported value.
  Result<std::unique_ptr<Model>> (*make)(const ops::Context& context,
                                         const model_files::ModelSource& source,
                                         WeightLoader& weights);
};

// Every family, in file-name order.
[[nodiscard]] std::span<const ModelFamily* const> All();

// The family of a model_type, or nullptr.
[[nodiscard]] const ModelFamily* FindFamily(std::string_view model_type);

// All model_types that can be served.
[[nodiscard]] std::vector<std::string_view> KnownModelTypes();

}  // namespace models
