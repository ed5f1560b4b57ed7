// A GGUF file as a ModelSource: metadata and names translated to Hugging Face's.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model_files/gguf_config.h"
#include "model_files/gguf_families.h"
#include "model_files/gguf_file.h"
#include "model_files/gguf_vocabulary.h"
#include "model_files/opening.h"
#include "model_files/tensor_formats.h"

namespace model_files {
namespace {

struct FileType {
  std::int64_t number;
  std::string_view name;
};

// llama.h, enum llama_ftype.
constexpr auto kFileTypes = std::to_array<FileType>({
    {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
    {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
    {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
    {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
    {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
    {36, "TQ1_0"},   {37, "TQ2_0"},   {38, "MXFP4"},  {39, "NVFP4"},
});

std::string NameQuantization(const GgufFile& file) {
  const std::int64_t number = file.metadata.Integer("general.file_type").value_or(-1);
  const auto known = std::ranges::find(kFileTypes, number, &FileType::number);
  if (known != kFileTypes.end()) {
    return std::string(known->name);
  }
  std::vector<const TensorView*> tensors;
  for (const TensorView& tensor : file.tensors) {
    tensors.push_back(&tensor);
  }
  return std::string(PrevailingFormat(tensors));
}

// Parts of models that llama.cpp also keeps in GGUF files.
Result<void> CheckIsModel(const GgufFile& file, std::string_view architecture,
                          std::string_view file_name) {
  const std::string_view type = file.metadata.Text("general.type").value_or("model");
  if (architecture == "clip" || type == "mmproj") {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("{} is the image or audio projector of a model (mmproj) and no language "
                    "model.",
                    file_name));
  }
  if (type != "model") {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} is of the type `{}` and no language model.", file_name, type));
  }
  if (architecture.empty()) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("{} does not name its architecture (`general.architecture`).", file_name));
  }
  return {};
}

void MarkPermutedHeads(ModelSource& source) {
  const int heads = source.config["num_attention_heads"].get<int>();
  const int kv_heads = source.config["num_key_value_heads"].get<int>();
  for (const auto& [name, tensor] : source.tensors) {
    if (name.find(".self_attn.q_proj.") != std::string::npos) {
      source.permuted_heads.emplace(name, heads);
    } else if (name.find(".self_attn.k_proj.") != std::string::npos) {
      source.permuted_heads.emplace(name, kv_heads);
    }
  }
}

void AddTensors(GgufFile& file, const GgufFamily* family, ModelSource& source) {
  for (TensorView& tensor : file.tensors) {
    source.weight_bytes += tensor.data.size();
    if (family != nullptr && IsInConfig(tensor.stored_name)) {
      continue;
    }
    // A name that the family does not know stays: its loader names it as surplus.
    std::optional<std::string> name =
        family == nullptr ? std::nullopt : TranslateTensorName(*family, tensor.stored_name);
    tensor.name = name ? std::move(*name) : tensor.stored_name;
    std::string key = tensor.name;
    source.tensors.emplace(std::move(key), std::move(tensor));
  }
}

template <class T>
void SetWithin(std::optional<T>& field, std::optional<double> value, double low, double high) {
  if (value && *value >= low && *value <= high) {
    field = static_cast<T>(*value);
  }
}

GenerationDefaults ReadSamplingDefaults(const GgufMetadata& metadata) {
  constexpr double kMaxTemperature = 100;
  constexpr double kMaxTopK = 1e6;
  constexpr double kMaxPenalty = 100;
  constexpr double kAboveZero = 1e-9;
  GenerationDefaults defaults;
  SetWithin(defaults.temperature, metadata.Number("general.sampling.temp"), 0, kMaxTemperature);
  SetWithin(defaults.top_p, metadata.Number("general.sampling.top_p"), kAboveZero, 1);
  SetWithin(defaults.top_k, metadata.Number("general.sampling.top_k"), 0, kMaxTopK);
  SetWithin(defaults.min_p, metadata.Number("general.sampling.min_p"), 0, 1);
  SetWithin(defaults.repetition_penalty, metadata.Number("general.sampling.penalty_repeat"),
            kAboveZero, kMaxPenalty);
  return defaults;
}

std::string NameModel(const std::filesystem::path& path, const GgufMetadata& metadata) {
  const std::string file_name = path.filename().string();
  if (path.extension() == ".gguf") {
    return path.stem().string();
  }
  // Ollama's blobs are named after their hash.
  const auto general_name = metadata.Text("general.name");
  return file_name.starts_with("sha256-") && general_name ? std::string(*general_name) : file_name;
}

}  // namespace

Result<ModelSource> OpenGgufModel(OpenDepth depth, const std::filesystem::path& path) {
  const std::string file_name = path.filename().string();
  Result<GgufFile> file = OpenGguf(path);
  if (!file) {
    return Fail(file.error());
  }
  const std::string architecture(file->metadata.Text("general.architecture").value_or(""));
  if (Result<void> model = CheckIsModel(*file, architecture, file_name); !model) {
    return Fail(model.error());
  }
  const GgufFamily* family = FindGgufFamily(architecture);
  Result<Json> config = TranslateConfig(*file, architecture, family, file_name);
  if (!config) {
    return Fail(config.error());
  }
  ModelSource source;
  source.path = path;
  source.name = NameModel(path, file->metadata);
  source.format = ModelFormat::kGguf;
  source.config = std::move(*config);
  source.model_type = source.config["model_type"].get<std::string>();
  source.context_length = source.config.value("max_position_embeddings", std::int64_t{0});
  source.quantization = NameQuantization(*file);
  source.generation_defaults = ReadSamplingDefaults(file->metadata);
  if (depth == OpenDepth::kAll) {
    Result<TokenizerFiles> tokenizer = ReadGgufTokenizer(file->metadata, file_name);
    if (!tokenizer) {
      return Fail(tokenizer.error());
    }
    source.tokenizer = std::move(*tokenizer);
    source.eos_token_ids = ReadGgufEndTokens(file->metadata, source.tokenizer);
  }
  AddTensors(*file, family, source);
  if (family != nullptr) {
    source.norm_weights_include_one = family->norm_weights_include_one;
    if (family->permuted_heads) {
      MarkPermutedHeads(source);
    }
  }
  return source;
}

}  // namespace model_files
