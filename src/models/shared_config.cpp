#include "models/shared_config.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace models {
namespace {

// Far above every model, and far below what overflows an int or fills memory before the first
// tensor's shape is compared.
constexpr std::int64_t kMaxHeadsTimesDim = 1 << 24;

}  // namespace

const Json* ConfigReader::Find(std::string_view key) const {
  if (!config_.is_object()) {
    return nullptr;
  }
  const auto found = config_.find(std::string(key));
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::Refuse(std::string message) {
  if (!mistake_) {
    mistake_ = std::move(message);
  }
}

void ConfigReader::RefuseField(std::string_view key, std::string_view expected) {
  const Json* value = Find(key);
  if (value == nullptr) {
    Refuse(fmt::format("The configuration lacks `{}`, which must be {}.", key, expected));
  } else {
    constexpr std::size_t kShown = 60;  // bytes of a value that a message can carry
    Refuse(fmt::format("`{}` in the configuration must be {}, got {}.", key, expected,
                       DumpJson(*value).substr(0, kShown)));
  }
}

int ConfigReader::Size(std::string_view key, std::optional<int> fallback) {
  const Json* value = Find(key);
  if (value == nullptr && fallback) {
    return *fallback;
  }
  if (value == nullptr || !value->is_number()) {
    RefuseField(key, "a whole number of at least 1");
    return 1;
  }
  const double number = value->get<double>();
  if (number < 1 || number > std::numeric_limits<int>::max() || number != std::floor(number)) {
    RefuseField(key, "a whole number of at least 1");
    return 1;
  }
  return static_cast<int>(number);
}

double ConfigReader::Positive(std::string_view key, std::optional<double> fallback) {
  const Json* value = Find(key);
  if (value == nullptr && fallback) {
    return *fallback;
  }
  const double number = value != nullptr && value->is_number() ? value->get<double>() : 0.0;
  if (!(number > 0) || !std::isfinite(number)) {
    RefuseField(key, "a number above 0");
    return 1.0;
  }
  return number;
}

bool ConfigReader::Flag(std::string_view key, bool fallback) {
  const Json* value = Find(key);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_boolean()) {
    RefuseField(key, "true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::Text(std::string_view key, std::string_view fallback) {
  const Json* value = Find(key);
  if (value == nullptr) {
    return std::string(fallback);
  }
  if (!value->is_string()) {
    RefuseField(key, "a text");
    return std::string(fallback);
  }
  return value->get<std::string>();
}

bool ConfigReader::IsSet(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr || (value->is_boolean() && !value->get<bool>())) {
    return false;
  }
  return !value->is_number() || value->get<double>() != 0.0;
}

Result<void> ConfigReader::Check() const {
  if (mistake_) {
    return Fail(ErrorCode::kBadModel, *mistake_);
  }
  return {};
}

void CheckHeads(ConfigReader& reader, int n_heads, int n_kv_heads, int head_dim) {
  if (n_heads % n_kv_heads != 0) {
    reader.Refuse(fmt::format(
        "`num_attention_heads` must be a multiple of `num_key_value_heads`, got {} and {}.",
        n_heads, n_kv_heads));
  }
  if (std::int64_t{n_heads} * head_dim > kMaxHeadsTimesDim) {
    reader.Refuse(
        fmt::format("`num_attention_heads` times `head_dim` must be at most {}, got {} times {}.",
                    kMaxHeadsTimesDim, n_heads, head_dim));
  }
  if (head_dim < 2 || head_dim % 2 != 0) {
    reader.Refuse(fmt::format("`head_dim` must be even and at least 2, got {}.", head_dim));
  }
}

}  // namespace models
