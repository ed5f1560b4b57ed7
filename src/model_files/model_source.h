#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model_files/tensor_source.h"

namespace model_files {

enum class ModelFormat : std::uint8_t { kHuggingFace, kMlx, kGguf };

// The vocabulary of a GGUF file, out of its tokenizer.ggml.* metadata; chat/gguf_tokenizer.h makes
// a tokenizer of it.
struct GgufVocabulary {
  std::string model;  // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;    // tokenizer.ggml.pre: "smollm", "qwen2", "llama-bpe", "default", ...
  std::vector<std::string> tokens;
  std::vector<float> scores;  // SentencePiece only
  std::vector<std::int32_t>
      token_types;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string> merges;  // BPE only, "left right"
  std::optional<bool> add_bos;      // tokenizer.ggml.add_bos_token
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
};

// Where tokenizer and templates come from.
struct TokenizerFiles {
  std::string tokenizer_json;          // content of tokenizer.json; empty for GGUF
  std::optional<GgufVocabulary> gguf;  // GGUF only
  std::vector<std::string> extra_tokens =
      {};  // bytes of tokens beyond the vocabulary (of a script)
  std::optional<std::string>
      chat_template;  // chat_template.jinja, else tokenizer_config.json, else GGUF metadata
  std::map<std::string, std::string>
      named_templates;    // e.g. "tool_use", where the file has several
  std::string bos_token;  // text; empty when there is none
  std::string eos_token;
  std::string unk_token;
  std::string pad_token;
};

// Sampling defaults of generation_config.json, where given.
struct GenerationDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

// A model on disk, opened and checked but not loaded: every tensor lies inside its file, the parts
// that must be there are there. GGUF metadata and tensor names are translated to Hugging Face's, so
// that models/ knows one naming: `config` reads as config.json does ("model_type", "hidden_size",
// "rope_scaling", ...; for sliding windows "sliding_window" and "layer_types"); q and k rows that
// GGUF's llama converter permuted for interleaved RoPE are marked in `permuted_heads` and
// un-permuted by engine/weights.
struct ModelSource {
  std::filesystem::path path;  // the directory or the .gguf file
  std::string name;            // directory or file name without .gguf
  ModelFormat format = ModelFormat::kHuggingFace;
  Json config;                                // as config.json
  std::string model_type;                     // config["model_type"]
  std::string quantization;                   // for people: "Q4_1", "affine 4-bit g64", "BF16"
  std::map<std::string, TensorView> tensors;  // by Hugging Face name
  TokenizerFiles tokenizer;
  GenerationDefaults generation_defaults;
  std::vector<std::int64_t>
      eos_token_ids;  // union of config.json, generation_config.json, GGUF eos/eot/eom ids
  std::int64_t context_length = 0;  // max_position_embeddings, or <arch>.context_length
  std::uint64_t weight_bytes = 0;   // stored size of all tensors
  // GGUF: tensors whose rows llama.cpp's converter permuted, with the number of heads.
  std::map<std::string, int> permuted_heads;
  // GGUF: zero-centred norm weights (gemma) are stored with the 1 already added.
  bool norm_weights_include_one = false;
};

// Opens the model at `path`: a directory (Hugging Face or MLX layout) or a .gguf file.
// Errors (kBadModel, kIo), each one sentence that names the file: nothing there; config.json
// missing, damaged or without model_type; a shard named by the index missing; a tensor outside its
// file ("... is truncated"); a bad GGUF magic or version; no tokenizer.
[[nodiscard]] Result<ModelSource> OpenModel(const std::filesystem::path& path);

}  // namespace model_files
