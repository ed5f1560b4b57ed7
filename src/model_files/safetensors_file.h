#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model_files/tensor_source.h"

namespace model_files {

// A parsed safetensors file, tensors in name order.
struct SafetensorsFile {
  std::vector<TensorView> tensors;
  std::string written_by;  // __metadata__.format: "pt", "mlx"; empty when absent
};

// Parses `bytes`; the result refers to them, and TensorView::file is left empty. Errors (kBadModel)
// name the file: a header that is too long or no JSON, a tensor without dtype, shape or offsets, a
// size that is not shape times dtype, tensors that overlap, a tensor outside the file ("... is
// truncated").
[[nodiscard]] Result<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes,
                                                       std::string_view file_name);

// The tensors of all weight files of a model directory, by name.
struct WeightFiles {
  std::map<std::string, TensorView> tensors;
  std::string written_by;
};

// Opens the shards that model.safetensors.index.json names, else model.safetensors, else every
// model*.safetensors or, failing that, *.safetensors (no adapters). Errors: as above, a missing
// shard, a damaged index, a tensor in two shards, no safetensors at all.
[[nodiscard]] Result<WeightFiles> OpenSafetensors(const std::filesystem::path& directory);

}  // namespace model_files
