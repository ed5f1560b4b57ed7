// A Hugging Face or MLX model directory as a ModelSource.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "model_files/end_tokens.h"
#include "model_files/opening.h"
#include "model_files/read_text_file.h"
#include "model_files/safetensors_file.h"
#include "model_files/tensor_formats.h"
#include "model_files/tokenizer_files.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;

Result<Json> ReadConfig(const fs::path& directory) {
  const fs::path path = directory / "config.json";
  Result<std::optional<Json>> config = ReadJsonObject(path);
  if (!config) {
    return Fail(config.error());
  }
  if (!*config) {
    return Fail(ErrorCode::kBadModel, fmt::format("`{}` has no config.json.", directory.string()));
  }
  const auto type = (*config)->find("model_type");
  if (type == (*config)->end() || !type->is_string() ||
      type->get_ref<const std::string&>().empty()) {
    return Fail(ErrorCode::kBadModel, fmt::format("`{}` names no `model_type`.", path.string()));
  }
  return std::move(**config);
}

// A field of the config or, for multi-modal ones, of its text part; null when in neither.
Json FindField(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found != config.end() && !found->is_null()) {
    return *found;
  }
  const auto text = config.find("text_config");
  if (text != config.end() && text->is_object() && text->contains(key)) {
    return (*text)[key];
  }
  return nullptr;
}

std::int64_t IntegerIn(const Json& object, const char* key, std::int64_t fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                             : fallback;
}

std::string TextIn(const Json& object, const char* key, std::string_view fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string(fallback);
}

// "affine 4-bit g64", with ", mixed" when single matrices differ.
std::string NameMlxQuantization(const Json& records) {
  constexpr std::int64_t kDefaultBits = 4;  // mlx.core.quantize's
  constexpr std::int64_t kDefaultGroup = 64;
  const std::int64_t bits = IntegerIn(records, "bits", kDefaultBits);
  bool mixed = false;
  for (const auto& [key, entry] : records.items()) {
    mixed = mixed || (entry.is_object() && IntegerIn(entry, "bits", bits) != bits);
  }
  return fmt::format("{} {}-bit g{}{}", TextIn(records, "mode", "affine"), bits,
                     IntegerIn(records, "group_size", kDefaultGroup), mixed ? ", mixed" : "");
}

std::string NameQuantization(const ModelSource& source) {
  const auto mlx = source.config.find("quantization");
  if (mlx != source.config.end() && mlx->is_object()) {
    return NameMlxQuantization(*mlx);
  }
  const auto other = source.config.find("quantization_config");
  if (other != source.config.end() && other->is_object()) {
    return other->contains("quant_method") ? TextIn(*other, "quant_method", "unknown")
                                           : NameMlxQuantization(*other);
  }
  std::vector<const TensorView*> tensors;
  for (const auto& [name, tensor] : source.tensors) {
    tensors.push_back(&tensor);
  }
  return std::string(PrevailingFormat(tensors));
}

std::optional<double> NumberWithin(const Json& object, const char* key, double low, double high) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) {
    return std::nullopt;
  }
  const double value = found->get<double>();
  return value >= low && value <= high ? std::optional(value) : std::nullopt;
}

// Values outside the range that requests allow are left out: they are hints, not part of the model.
GenerationDefaults ReadDefaults(const Json& config) {
  constexpr double kMaxTemperature = 100;
  constexpr double kMaxTopK = 1e6;
  constexpr double kMaxPenalty = 100;
  constexpr double kAboveZero = 1e-9;
  GenerationDefaults defaults{
      .temperature = NumberWithin(config, "temperature", 0, kMaxTemperature),
      .top_p = NumberWithin(config, "top_p", kAboveZero, 1),
      .top_k = std::nullopt,
      .min_p = NumberWithin(config, "min_p", 0, 1),
      .repetition_penalty = NumberWithin(config, "repetition_penalty", kAboveZero, kMaxPenalty)};
  if (const auto top_k = NumberWithin(config, "top_k", 0, kMaxTopK)) {
    defaults.top_k = static_cast<int>(*top_k);
  }
  return defaults;
}

// The hub's cache names a snapshot's folder after its commit: models--org--name/snapshots/<commit>.
std::string NameDirectory(const fs::path& directory) {
  constexpr std::string_view kPrefix = "models--";
  std::error_code ignored;
  fs::path path = fs::absolute(directory, ignored).lexically_normal();
  if (path.filename().empty()) {
    path = path.parent_path();
  }
  const std::string repository = path.parent_path().parent_path().filename().string();
  if (path.parent_path().filename() != "snapshots" || !repository.starts_with(kPrefix)) {
    return path.filename().string();
  }
  const std::string name = repository.substr(kPrefix.size());
  const std::size_t at = name.find("--");
  return at == std::string::npos ? name
                                 : fmt::format("{}/{}", name.substr(0, at), name.substr(at + 2));
}

Result<void> AddGenerationConfig(const fs::path& directory, ModelSource& source) {
  const Result<std::optional<Json>> config = ReadJsonObject(directory / "generation_config.json");
  if (!config) {
    return Fail(config.error());
  }
  if (*config) {
    source.generation_defaults = ReadDefaults(**config);
    if ((*config)->contains("eos_token_id")) {
      AddEndTokens(source.eos_token_ids, (**config)["eos_token_id"]);
    }
  }
  return {};
}

}  // namespace

Result<ModelSource> OpenHuggingFaceDir(OpenDepth depth, const fs::path& directory) {
  Result<Json> config = ReadConfig(directory);
  if (!config) {
    return Fail(config.error());
  }
  Result<WeightFiles> weights = OpenSafetensors(directory);
  if (!weights) {
    return Fail(weights.error());
  }
  Result<TokenizerFiles> tokenizer = ReadTokenizerFiles(depth, directory);
  if (!tokenizer) {
    return Fail(tokenizer.error());
  }
  ModelSource source;
  source.path = directory;
  source.name = NameDirectory(directory);
  source.config = std::move(*config);
  source.model_type = source.config["model_type"].get<std::string>();
  const bool mlx = source.config.contains("quantization") || weights->written_by == "mlx";
  source.format = mlx ? ModelFormat::kMlx : ModelFormat::kHuggingFace;
  source.tensors = std::move(weights->tensors);
  for (const auto& [name, tensor] : source.tensors) {
    source.weight_bytes += tensor.data.size();
  }
  source.quantization = NameQuantization(source);
  source.tokenizer = std::move(*tokenizer);
  const Json context = FindField(source.config, "max_position_embeddings");
  source.context_length = context.is_number_integer() ? context.get<std::int64_t>() : 0;
  AddEndTokens(source.eos_token_ids, FindField(source.config, "eos_token_id"));
  if (Result<void> added = AddGenerationConfig(directory, source); !added) {
    return Fail(added.error());
  }
  for (const std::int64_t id : FindEndTokens(source.tokenizer)) {
    AddEndToken(source.eos_token_ids, id);
  }
  return source;
}

}  // namespace model_files
