#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "model_files/gguf_file.h"

namespace model_files {

// A part of a tensor's name in GGUF and in Hugging Face checkpoints, without ".weight" and layer
// prefix.
struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
};

// How one GGUF architecture is told in Hugging Face terms: a further family is one more row of the
// table in gguf_families.cpp.
struct GgufFamily {
  std::string_view architecture;  // general.architecture
  std::string_view model_type;    // of config.json
  std::string_view activation_key;
  std::string_view activation;
  // Names inside a layer that differ from the common ones; searched first.
  std::span<const NamePair> layer_names;
  // Its converter permutes the rows of q and k for interleaved RoPE pairs.
  bool permuted_heads = false;
  // Its norm weights are stored with the 1 added that the checkpoint leaves out.
  bool norm_weights_include_one = false;
  // Adds what only this family has to `config`, which has the common fields already; may be null.
  void (*add_config)(const GgufMetadata& metadata, Json& config) = nullptr;
};

// The row of an architecture, or nullptr.
[[nodiscard]] const GgufFamily* FindGgufFamily(std::string_view architecture);

// Hugging Face name of a stored tensor: "blk.3.attn_q.weight" ->
// "model.layers.3.self_attn.q_proj.weight". Nothing for names that the family does not know.
[[nodiscard]] std::optional<std::string> TranslateTensorName(const GgufFamily& family,
                                                             std::string_view stored_name);

}  // namespace model_files
