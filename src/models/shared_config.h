#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace models {

// Reads typed fields of config.json and remembers the first mistake, so that a family reads all its
// fields in a row and checks once. A field that is missing or null gives its fallback; without a
// fallback that is a mistake.
class ConfigReader {
 public:
  // `config` must outlive the reader.
  explicit ConfigReader(const Json& config) : config_(config) {}

  // A whole number of at least 1: sizes and counts.
  [[nodiscard]] int Size(std::string_view key, std::optional<int> fallback = std::nullopt);
  // A finite number above 0.
  [[nodiscard]] double Positive(std::string_view key,
                                std::optional<double> fallback = std::nullopt);
  [[nodiscard]] bool Flag(std::string_view key, bool fallback);
  [[nodiscard]] std::string Text(std::string_view key, std::string_view fallback);
  // True when the field is there and neither null nor zero nor false.
  [[nodiscard]] bool IsSet(std::string_view key) const;

  // Remembers `message` as the mistake unless there is one already.
  void Refuse(std::string message);

  // kBadModel with the first mistake.
  [[nodiscard]] Result<void> Check() const;

 private:
  [[nodiscard]] const Json* Find(std::string_view key) const;
  void RefuseField(std::string_view key, std::string_view expected);

  const Json& config_;
  std::optional<std::string> mistake_;
};

// Refuses head counts and sizes that no attention can have.
void CheckHeads(ConfigReader& reader, int n_heads, int n_kv_heads, int head_dim);

}  // namespace models
