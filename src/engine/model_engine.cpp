// LoadEngine and the engine it makes: models::Model behind the Engine interface.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlx/device.h>
#include <mlx/memory.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/fingerprint.h"
#include "models/model.h"
#include "models/shared_disguise.h"
#include "models/weight_loader.h"
#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/thread_pool.h"

namespace engine {
namespace {

namespace mx = mlx::core;

// Freed buffers that MLX keeps for reuse: a prefill step's activations fit, a leak of budget does
// not.
constexpr std::size_t kMlxCacheBytes = std::size_t{128} << 20U;

// What MLX's exceptions become: their text is for the log, not for a client.
template <class T, class Function>
Result<T> CatchingLibraries(std::string_view doing, const Function& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kOutOfMemory,
                fmt::format("The system has no memory left for {}.", doing));
  } catch (const std::exception& e) {
    spdlog::error("{} failed: {}", doing, e.what());
    return Fail(ErrorCode::kInternal,
                fmt::format("An internal error stopped {}; the log has the details.", doing));
  }
}

class ModelEngine final : public Engine {
 public:
  // The parts in the order in which they need each other.
  struct Parts {
    std::unique_ptr<ops::ThreadPool> pool;
    ops::Context context;
    std::unique_ptr<models::Model> model;
    std::unique_ptr<ops::KvStore> store;
    std::string fingerprint;
    std::uint64_t weight_bytes = 0;
  };

  // On the heap, since the model keeps a reference to the context.
  explicit ModelEngine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

  [[nodiscard]] Result<StepLogits> Forward(const std::vector<StepSequence>& sequences) override {
    const Result<ops::StepBatch> batch = MakeBatch(sequences);
    if (!batch) {
      return Fail(batch.error());
    }
    return CatchingLibraries<StepLogits>("a step of the model", [&] { return Compute(*batch); });
  }

  [[nodiscard]] ops::BlockStore& blocks() override { return *parts_->store; }
  [[nodiscard]] int vocab_size() const override { return parts_->model->vocab_size(); }
  [[nodiscard]] const std::string& fingerprint() const override { return parts_->fingerprint; }
  [[nodiscard]] std::uint64_t weight_bytes() const override { return parts_->weight_bytes; }

 private:
  [[nodiscard]] Result<ops::StepBatch> MakeBatch(const std::vector<StepSequence>& sequences) const;
  [[nodiscard]] StepLogits Compute(const ops::StepBatch& batch);

  std::unique_ptr<Parts> parts_;
};

Result<ops::StepBatch> ModelEngine::MakeBatch(const std::vector<StepSequence>& sequences) const {
  const int vocab = vocab_size();
  ops::StepBatch batch;
  for (const StepSequence& sequence : sequences) {
    const auto first_row = static_cast<int>(batch.tokens.size());
    if (sequence.tokens.empty()) {
      return Fail(ErrorCode::kInternal, "A sequence came to a step without tokens.");
    }
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      const TokenId token = sequence.tokens[i];
      if (token < 0 || token >= vocab) {
        return Fail(
            ErrorCode::kInvalidRequest,
            fmt::format(
                "Token ids must be at least 0 and below {}, the model's vocabulary, got {}.", vocab,
                token),
            "prompt");
      }
      batch.tokens.push_back(token);
      batch.positions.push_back(static_cast<std::int32_t>(sequence.first_position) +
                                static_cast<std::int32_t>(i));
    }
    const auto n_tokens = static_cast<int>(sequence.tokens.size());
    batch.sequences.push_back({.first_row = first_row,
                               .n_tokens = n_tokens,
                               .first_position = sequence.first_position,
                               .block_tables = sequence.block_tables});
    if (sequence.wants_logits) {
      batch.logit_rows.push_back(first_row + n_tokens - 1);
    }
  }
  return batch;
}

StepLogits ModelEngine::Compute(const ops::StepBatch& batch) {
  const int vocab = vocab_size();
  if (batch.tokens.empty()) {
    return StepLogits({}, vocab);
  }
  mx::array out = parts_->model->Forward(batch, *parts_->store);
  if (batch.logit_rows.empty()) {
    mx::eval(out);
    return StepLogits({}, vocab);
  }
  out = mx::contiguous(out);
  mx::eval(out);
  const float* values = out.data<float>();
  return StepLogits(std::vector<float>(values, values + out.size()), vocab);
}

// Names the known type that begins most like `model_type`, if one does.
std::optional<std::string_view> SimilarType(std::string_view model_type,
                                            const std::vector<std::string_view>& known) {
  constexpr std::ptrdiff_t kAlike = 4;  // "qwen", "gemm", "llam"
  std::optional<std::string_view> best;
  std::ptrdiff_t best_length = kAlike - 1;
  for (const std::string_view type : known) {
    const std::ptrdiff_t common = std::ranges::mismatch(type, model_type).in1 - type.begin();
    if (common > best_length) {
      best_length = common;
      best = type;
    }
  }
  return best;
}

tl::unexpected<Error> UnknownType(const model_files::ModelSource& source) {
  const std::vector<std::string_view> known = models::KnownModelTypes();
  if (const std::optional<std::string_view> disguised = models::FindDisguised(source)) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("The model `{}` is of the unknown type `{}`, but its layers hold the tensors "
                    "of a `{}`: if it is one, set \"model_type\": \"{}\" in its config.json.",
                    source.name, source.model_type, *disguised, *disguised));
  }
  const std::optional<std::string_view> similar = SimilarType(source.model_type, known);
  return Fail(
      ErrorCode::kBadModel,
      fmt::format(
          "The model `{}` is of type `{}`, which cannot be served yet; known types are {}{}.",
          source.name, source.model_type, fmt::join(known, ", "),
          similar ? fmt::format(" (`{}` has a similar name but another architecture)", *similar)
                  : std::string()));
}

// The budget of K and V, in bytes, once the weights are in.
std::uint64_t KvBudget(const EngineOptions& options, std::uint64_t total,
                       std::uint64_t weight_bytes) {
  const std::uint64_t left = total - std::min(total, weight_bytes);
  if (options.kv_budget_bytes == 0) {
    return static_cast<std::uint64_t>(static_cast<double>(left) * options.kv_budget_percent /
                                      100.0);
  }
  if (options.kv_budget_bytes > left) {
    spdlog::warn(
        "the cache budget of {} is more than the {} that the weights leave of {}; using the latter",
        FormatBytes(options.kv_budget_bytes), FormatBytes(left), FormatBytes(total));
    return left;
  }
  return options.kv_budget_bytes;
}

Result<void> CheckWeightsFit(const model_files::ModelSource& source, std::uint64_t bytes) {
  const std::uint64_t total = TotalMemoryBytes();
  if (bytes < total) {
    return {};
  }
  return Fail(ErrorCode::kOutOfMemory,
              fmt::format("The weights of `{}` need {}, but this machine has {} of memory.",
                          source.name, FormatBytes(bytes), FormatBytes(total)));
}

// Heads whose vectors the native kernels do not split evenly.
Result<void> CheckHeadDim(const model_files::ModelSource& source, const EngineOptions& options,
                          int head_dim) {
  constexpr int kGrain = 16;  // lanes of a kernel's vector, see ops/attention/kernels.h
  if (options.path == ops::KernelPath::kReference || head_dim % kGrain == 0) {
    return {};
  }
  return Fail(
      ErrorCode::kBadModel,
      fmt::format("The model `{}` has a head_dim of {}; the native kernels need a multiple of "
                  "{} (EMBERBANK_KERNELS=reference serves it, slowly).",
                  source.name, head_dim, kGrain));
}

Result<ops::KvDtype> KvDtypeOf(int kv_bits) {
  switch (kv_bits) {
    case 32:
      return ops::KvDtype::kF32;
    case 16:
      return ops::KvDtype::kF16;
    case 8:
      return ops::KvDtype::kI8;
    case 4:
      return ops::KvDtype::kI4;
    default:
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("`--kv-bits` must be 32, 16, 8 or 4, got {}.", kv_bits));
  }
}

Result<void> CheckKvFits(const model_files::ModelSource& source, int head_dim, ops::KvDtype dtype) {
  if (dtype != ops::KvDtype::kI4 || head_dim % ops::kI4Group == 0) {
    return {};
  }
  return Fail(ErrorCode::kUnsupported,
              fmt::format("The model `{}` has a head_dim of {}; `--kv-bits 4` needs a multiple of "
                          "{} (`--kv-bits 8` serves it).",
                          source.name, head_dim, ops::kI4Group));
}

void SetUpMlx(const EngineOptions& options) {
  const bool gpu = mx::is_available(mx::Device(mx::Device::gpu));
  if (!gpu || options.path == ops::KernelPath::kNative) {
    mx::set_default_device(mx::Device(mx::Device::cpu));
  }
  mx::set_cache_limit(kMlxCacheBytes);
}

Result<std::unique_ptr<Engine>> Load(const model_files::ModelSource& source,
                                     const models::ModelFamily& family,
                                     const EngineOptions& options, ops::KvDtype kv_dtype) {
  SetUpMlx(options);
  auto parts = std::make_unique<ModelEngine::Parts>();
  parts->pool = std::make_unique<ops::ThreadPool>(std::max(1, options.threads));
  parts->context = {
      .path = options.path, .instruction_set = options.instruction_set, .pool = parts->pool.get()};
  // Before loading, which gives the files' pages back.
  parts->fingerprint = Fingerprint(
      source,
      {.path = options.path, .instruction_set = options.instruction_set, .kv_dtype = kv_dtype});
  models::WeightLoader weights(parts->context, source, [&](std::uint64_t bytes) {
    if (options.on_progress && source.weight_bytes > 0) {
      options.on_progress(
          std::min(1.0, static_cast<double>(bytes) / static_cast<double>(source.weight_bytes)));
    }
  });
  Result<std::unique_ptr<models::Model>> model = family.make(parts->context, source, weights);
  if (!model) {
    return Fail(model.error());
  }
  parts->model = std::move(*model);
  parts->weight_bytes = weights.loaded_bytes();
  if (Result<void> fits = CheckWeightsFit(source, parts->weight_bytes); !fits) {
    return Fail(fits.error());
  }
  ops::KvStoreSpec spec = parts->model->kv_spec();
  if (Result<void> divides = CheckHeadDim(source, options, spec.head_dim); !divides) {
    return Fail(divides.error());
  }
  if (Result<void> fits = CheckKvFits(source, spec.head_dim, kv_dtype); !fits) {
    return Fail(fits.error());
  }
  spec.dtype = kv_dtype;
  spec.budget_bytes = KvBudget(options, TotalMemoryBytes(), parts->weight_bytes);
  parts->store = ops::MakeKvStore(parts->context, std::move(spec));
  return std::make_unique<ModelEngine>(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Engine>> LoadEngine(const model_files::ModelSource& source,
                                           const EngineOptions& options) {
  const models::ModelFamily* family = models::FindFamily(source.model_type);
  if (family == nullptr) {
    return UnknownType(source);
  }
  const Result<ops::KvDtype> kv_dtype = KvDtypeOf(options.kv_bits);
  if (!kv_dtype) {
    return Fail(kv_dtype.error());
  }
  if (Result<void> fits = CheckWeightsFit(source, source.weight_bytes); !fits) {
    return Fail(fits.error());
  }
  return CatchingLibraries<std::unique_ptr<Engine>>(
      "loading the model", [&] { return Load(source, *family, options, *kv_dtype); });
}

}  // namespace engine
