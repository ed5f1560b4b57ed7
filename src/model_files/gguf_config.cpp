#include "model_files/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

namespace model_files {
namespace {

constexpr std::string_view kRopeFactorsName = "rope_freqs.weight";
constexpr std::string_view kLongFactorsName = "rope_factors_long.weight";
constexpr std::string_view kShortFactorsName = "rope_factors_short.weight";
constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();

const TensorView* FindTensor(const GgufFile& file, std::string_view stored_name) {
  const auto found = std::ranges::find(file.tensors, stored_name, &TensorView::stored_name);
  return found == file.tensors.end() ? nullptr : &*found;
}

// Reads the keys of one architecture and remembers the first that is wrong.
class ArchitectureReader {
 public:
  ArchitectureReader(const GgufMetadata& metadata, std::string_view architecture,
                     std::string_view file_name)
      : metadata_(metadata), architecture_(architecture), file_name_(file_name) {}

  [[nodiscard]] std::string Key(std::string_view key) const {
    return fmt::format("{}.{}", architecture_, key);
  }
  [[nodiscard]] std::optional<double> Number(std::string_view key) const {
    return metadata_.Number(Key(key));
  }
  [[nodiscard]] std::optional<std::string_view> Text(std::string_view key) const {
    return metadata_.Text(Key(key));
  }
  // A positive size; nothing when the key is absent or, unless remembered as the mistake, not one.
  std::optional<std::int64_t> Size(std::string_view key) {
    const std::string full = Key(key);
    if (!metadata_.Has(full)) {
      return std::nullopt;
    }
    const std::optional<std::int64_t> value = metadata_.Integer(full);
    if (!value || *value <= 0 || *value > kMaxSize) {
      Refuse(full);
      return std::nullopt;
    }
    return value;
  }
  std::int64_t RequiredSize(std::string_view key) {
    const std::optional<std::int64_t> value = Size(key);
    if (!value) {
      Refuse(Key(key));
    }
    return value.value_or(1);
  }
  [[nodiscard]] Result<void> Check() const {
    if (wrong_key_.empty()) {
      return {};
    }
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("{}: the metadata key `{}` is missing or no single whole number above 0.",
                    file_name_, wrong_key_));
  }

 private:
  void Refuse(std::string key) {
    if (wrong_key_.empty()) {
      wrong_key_ = std::move(key);
    }
  }

  const GgufMetadata& metadata_;
  std::string_view architecture_;
  std::string_view file_name_;
  std::string wrong_key_;
};

// config.json's rope_scaling, or null.
Json TranslateRopeScaling(ArchitectureReader& reader) {
  const std::string_view type = reader.Text("rope.scaling.type").value_or("");
  const double old_linear = reader.Number("rope.scale_linear").value_or(1.0);
  const double factor = reader.Number("rope.scaling.factor").value_or(old_linear);
  if (type == "none" || (type.empty() && factor == 1.0)) {
    return nullptr;
  }
  if (type == "linear" || type.empty()) {
    return factor == 1.0 ? Json(nullptr) : Json{{"rope_type", "linear"}, {"factor", factor}};
  }
  // Others keep their name, so that the family refuses what it does not know.
  Json scaling = {{"rope_type", type}, {"factor", factor}};
  const auto copy = [&](const char* to, std::string_view from) {
    if (const std::optional<double> value = reader.Number(from)) {
      scaling[to] = *value;
    }
  };
  if (const auto original = reader.Size("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] = *original;
  }
  copy("beta_fast", "rope.scaling.yarn_beta_fast");
  copy("beta_slow", "rope.scaling.yarn_beta_slow");
  return scaling;
}

// Frequency factors lie in tensors: Llama 3's already computed, LongRoPE's as the config has them.
Result<Json> ReadRopeFactors(const TensorView& tensor, std::string_view file_name) {
  if (tensor.format != TensorFormat::kF32) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{}: tensor `{}` is stored as {}, it must be F32.", file_name,
                            tensor.stored_name, tensor.format_name));
  }
  Json factors = Json::array();
  for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
    float factor = 0;
    std::memcpy(&factor, tensor.data.data() + at, sizeof(factor));
    if (!(factor > 0) || !std::isfinite(factor)) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("{}: tensor `{}` must hold finite numbers above 0, got {}.",
                              file_name, tensor.stored_name, factor));
    }
    factors.push_back(factor);
  }
  return factors;
}

void AddSizes(ArchitectureReader& reader, Json& config) {
  const std::int64_t hidden = reader.RequiredSize("embedding_length");
  const std::int64_t heads = reader.RequiredSize("attention.head_count");
  const std::int64_t head_dim = reader.Size("attention.key_length").value_or(hidden / heads);
  config["hidden_size"] = hidden;
  config["intermediate_size"] = reader.RequiredSize("feed_forward_length");
  config["num_hidden_layers"] = reader.RequiredSize("block_count");
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = reader.Size("attention.head_count_kv").value_or(heads);
  config["head_dim"] = head_dim;
  config["max_position_embeddings"] = reader.RequiredSize("context_length");
  const std::int64_t rotated = reader.Size("rope.dimension_count").value_or(head_dim);
  if (rotated != head_dim && head_dim > 0) {
    config["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head_dim);
  }
}

void AddNumbers(ArchitectureReader& reader, Json& config) {
  constexpr double kUsualTheta = 10000.0;
  constexpr double kUsualNormEps = 1e-5;
  config["rms_norm_eps"] =
      reader.Number("attention.layer_norm_rms_epsilon").value_or(kUsualNormEps);
  config["rope_theta"] = reader.Number("rope.freq_base").value_or(kUsualTheta);
  if (Json scaling = TranslateRopeScaling(reader); !scaling.is_null()) {
    config["rope_scaling"] = std::move(scaling);
  }
}

// LongRoPE (Phi-3): two lists of factors and the attention factor.
Result<void> AddLongRope(ArchitectureReader& reader, const GgufFile& file,
                         std::string_view file_name, Json& config) {
  const TensorView* long_factors = FindTensor(file, kLongFactorsName);
  const TensorView* short_factors = FindTensor(file, kShortFactorsName);
  if (long_factors == nullptr || short_factors == nullptr) {
    return {};
  }
  Json scaling = {{"rope_type", "longrope"}};
  for (const auto& [key, tensor] :
       {std::pair("long_factor", long_factors), std::pair("short_factor", short_factors)}) {
    Result<Json> list = ReadRopeFactors(*tensor, file_name);
    if (!list) {
      return Fail(list.error());
    }
    scaling[key] = std::move(*list);
  }
  if (const auto original = reader.Size("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] = *original;
  }
  if (const auto factor = reader.Number("rope.scaling.attn_factor")) {
    scaling["attention_factor"] = *factor;
  }
  config["rope_scaling"] = std::move(scaling);
  return {};
}

// Set for embedding models and rerankers (llama.h, enum llama_pooling_type; 0: none).
void AddPooling(const ArchitectureReader& reader, Json& config) {
  if (const double pooling = reader.Number("pooling_type").value_or(0); pooling > 0) {
    config["pooling_type"] = pooling;
  }
}

// An architecture that cannot be served: only what the list of models shows.
Json DescribeUnknown(ArchitectureReader& reader, std::string_view architecture) {
  Json config = {{"model_type", architecture}};
  if (const auto context = reader.Size("context_length")) {
    config["max_position_embeddings"] = *context;
  }
  AddPooling(reader, config);
  return config;
}

}  // namespace

bool IsInConfig(std::string_view stored_name) {
  return stored_name == kRopeFactorsName || stored_name == kLongFactorsName ||
         stored_name == kShortFactorsName;
}

Result<Json> TranslateConfig(const GgufFile& file, std::string_view architecture,
                             const GgufFamily* family, std::string_view file_name) {
  ArchitectureReader reader(file.metadata, architecture, file_name);
  if (family == nullptr) {
    return DescribeUnknown(reader, architecture);
  }
  Json config = {{"model_type", family->model_type}};
  AddSizes(reader, config);
  AddNumbers(reader, config);
  AddPooling(reader, config);
  config[std::string(family->activation_key)] = family->activation;
  const TensorView* embedding = FindTensor(file, "token_embd.weight");
  if (embedding != nullptr && !embedding->shape.empty()) {
    config["vocab_size"] = embedding->shape[0];
  }
  config["tie_word_embeddings"] = FindTensor(file, "output.weight") == nullptr;
  config["attention_bias"] = FindTensor(file, "blk.0.attn_q.bias") != nullptr;
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  // Bounds what a family lists by layer.
  if (const auto layers = config["num_hidden_layers"].get<std::uint64_t>();
      layers > file.tensors.size()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{}: `{}` is {}, but the file has only {} tensors.", file_name,
                            reader.Key("block_count"), layers, file.tensors.size()));
  }
  if (const TensorView* factors = FindTensor(file, kRopeFactorsName)) {
    Result<Json> list = ReadRopeFactors(*factors, file_name);
    if (!list) {
      return Fail(list.error());
    }
    config["rope_freq_factors"] = std::move(*list);
  }
  if (Result<void> added = AddLongRope(reader, file, file_name, config); !added) {
    return Fail(added.error());
  }
  if (family->add_config != nullptr) {
    family->add_config(file.metadata, config);
  }
  return config;
}

}  // namespace model_files
