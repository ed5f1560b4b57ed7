#include "models/shared_quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace models {
namespace {

constexpr int kDefaultGroupSize = 64;  // mlx.core.quantize's
constexpr int kDefaultBits = 4;

const Json* FindRecords(const Json& config) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object()) {
      return &*found;
    }
  }
  return nullptr;
}

// The module's own entry, or nullptr. Text parts of multi-modal checkpoints carry a further prefix.
const Json* FindOwnEntry(const Json& records, std::string_view name) {
  std::string_view rest = name;
  while (true) {
    const auto found = records.find(std::string(rest));
    if (found != records.end()) {
      return &*found;
    }
    const bool has_prefix = rest.starts_with("model.") || rest.starts_with("language_model.");
    if (!has_prefix) {
      break;
    }
    rest = rest.substr(rest.find('.') + 1);
  }
  const auto longer = records.find("model." + std::string(name));
  return longer == records.end() ? nullptr : &*longer;
}

Result<int> ReadOneOf(const Json& entry, const char* key, int fallback, std::string_view name,
                      std::initializer_list<int> allowed) {
  const auto found = entry.find(key);
  const bool absent = found == entry.end() || found->is_null();
  if (!absent && !found->is_number_integer()) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("The quantization record of `{}` has a `{}` that is not a whole number: {}.",
                    name, key, DumpJson(*found)));
  }
  const auto value = absent ? std::int64_t{fallback} : found->get<std::int64_t>();
  const bool known = std::ranges::any_of(allowed, [&](int each) { return each == value; });
  if (!known) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The quantization record of `{}` has {} = {}, which does not exist.",
                            name, key, value));
  }
  return static_cast<int>(value);
}

}  // namespace

Result<QuantizationRecord> FindQuantization(const Json& config, std::string_view name) {
  const Json* records = FindRecords(config);
  if (records == nullptr) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("The matrix `{}` is quantised, but config.json has no `quantization` record.",
                    name));
  }
  const Json* own = FindOwnEntry(*records, name);
  if (own != nullptr && own->is_boolean() && !own->get<bool>()) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("The matrix `{}` is stored quantised, but its quantization record is `false`.",
                    name));
  }
  const Json& entry = own != nullptr && own->is_object() ? *own : *records;
  const std::string mode = entry.contains("mode") && entry["mode"].is_string()
                               ? entry["mode"].get<std::string>()
                               : "affine";
  if (mode == "mxfp4") {
    constexpr int kBits = 4;
    constexpr int kGroup = 32;
    return QuantizationRecord{.bits = kBits, .group_size = kGroup, .mxfp4 = true};
  }
  if (mode != "affine") {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("The matrix `{}` is quantised in mode `{}`, which is not supported yet; "
                    "`affine` and `mxfp4` are.",
                    name, mode));
  }
  const Result<int> bits = ReadOneOf(entry, "bits", kDefaultBits, name, {2, 3, 4, 5, 6, 8});
  if (!bits) {
    return Fail(bits.error());
  }
  const Result<int> group_size =
      ReadOneOf(entry, "group_size", kDefaultGroupSize, name, {32, 64, 128});
  if (!group_size) {
    return Fail(group_size.error());
  }
  return QuantizationRecord{.bits = *bits, .group_size = *group_size};
}

Result<void> CheckQuantizationMethod(const Json& config) {
  const auto found = config.find("quantization_config");
  if (found == config.end() || !found->is_object()) {
    return {};
  }
  const auto method = found->find("quant_method");
  if (method == found->end() || !method->is_string()) {
    return {};
  }
  const auto name = method->get<std::string>();
  if (name == "mxfp4") {
    return {};
  }
  if (name == "fp8") {
    const Json blocks = found->value("weight_block_size", Json::array({128, 128}));
    if (blocks == Json::array({128, 128}) && found->value("fmt", Json("e4m3")) != "e5m2") {
      return {};
    }
    return Fail(ErrorCode::kBadModel,
                "Weights quantised with `fp8` must be E4M3 with scales for blocks of 128 x 128.");
  }
  return Fail(ErrorCode::kBadModel,
              fmt::format("The weights are quantised with `{}`, which is not supported yet; "
                          "supported are MLX's affine and mxfp4, fp8 and the GGUF formats.",
                          name));
}

}  // namespace models
