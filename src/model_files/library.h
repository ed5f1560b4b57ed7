#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace model_files {

// One model found in the places where programs keep them.
struct FoundModel {
  std::string name;  // how to name it to `serve`: "mlx-community/Qwen3-0.6B-4bit", "qwen3:0.6b"
  std::filesystem::path path;  // directory or .gguf file (an Ollama blob has no ending)
  std::string place;           // "EMBERBANK_MODELS", "LM Studio", "Hugging Face", "Ollama"
  std::string format;          // "GGUF", "MLX", "Hugging Face"
  std::string architecture;    // model_type
  std::string quantization;    // "Q4_K_M", "affine 4-bit g64", "BF16"
  std::uint64_t size_bytes = 0;
  bool servable = false;
  std::string why_not;  // one sentence when not servable
};

// Reads each place's environment variables and folders (EMBERBANK_MODELS with ':' between folders;
// ~/.lmstudio/models, ~/.cache/lm-studio/models; HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME,
// ~/.cache/huggingface/hub; OLLAMA_MODELS, ~/.ollama/models). Only headers are read. `known_types`
// are the model_types that can be served. Unreadable entries are listed with their reason, never an
// error.
[[nodiscard]] std::vector<FoundModel> FindModels(const std::vector<std::string_view>& known_types);

// The path that `name` stands for: a directory or file that exists, else a found model whose name
// equals `name` (or whose last component does, when just one has it, or just one that can be
// served). The error (kModelNotFound) lists the places searched and the nearest names.
[[nodiscard]] Result<std::filesystem::path> ResolveModel(
    const std::string& name, const std::vector<std::string_view>& known_types);

}  // namespace model_files
