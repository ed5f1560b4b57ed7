#include "model_files/servable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace model_files {
namespace {

// What models/weight_loader.h loads. Integer buffers (position ids) are left aside by every family.
bool IsReadable(TensorFormat format) { return format != TensorFormat::kOther; }

std::string TextIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Bits of a record that exist in MLX's affine format, or another record that is fine.
bool IsAffineRecord(const Json& record) {
  constexpr std::array<std::int64_t, 6> kBits = {2, 3, 4, 5, 6, 8};
  const std::string mode = TextIn(record, "mode");
  const auto bits = record.find("bits");
  const bool bits_exist =
      bits == record.end() || (bits->is_number_integer() &&
                               std::ranges::find(kBits, bits->get<std::int64_t>()) != kBits.end());
  return mode == "mxfp4" || ((mode.empty() || mode == "affine") && bits_exist);
}

std::string CheckQuantization(const Json& config) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const auto records = config.find(key);
    if (records == config.end() || !records->is_object()) {
      continue;
    }
    const std::string method = TextIn(*records, "quant_method");
    if (method == "mxfp4" || method == "fp8") {
      continue;
    }
    if (!method.empty()) {
      return fmt::format("The weights are quantised with `{}`, which is not supported yet.",
                         method);
    }
    bool affine = IsAffineRecord(*records);
    for (const auto& [name, entry] : records->items()) {
      affine = affine && (!entry.is_object() || IsAffineRecord(entry));
    }
    if (!affine) {
      return "Of MLX's quantisations only mxfp4 and affine with 2, 3, 4, 5, 6 or 8 bits are "
             "supported "
             "yet.";
    }
  }
  return {};
}

// Sentence Transformers put modules.json beside the weights.
bool IsEmbeddingModel(const ModelSource& source) {
  std::error_code ignored;
  return std::filesystem::is_directory(source.path, ignored) &&
         std::filesystem::exists(source.path / "modules.json", ignored);
}

}  // namespace

std::string WhyNotServable(const ModelSource& source,
                           const std::vector<std::string_view>& known_types) {
  if (IsEmbeddingModel(source) || source.config.contains("pooling_type")) {
    return "It computes embeddings and generates no text.";
  }
  if (std::ranges::find(known_types, source.model_type) == known_types.end()) {
    return fmt::format("The architecture `{}` is not supported.", source.model_type);
  }
  if (std::string reason = CheckQuantization(source.config); !reason.empty()) {
    return reason;
  }
  for (const auto& [name, tensor] : source.tensors) {
    if (!IsReadable(tensor.format)) {
      return fmt::format("Tensor `{}` is stored as {}, which is not supported yet.",
                         tensor.stored_name, tensor.format_name);
    }
  }
  return {};
}

}  // namespace model_files
