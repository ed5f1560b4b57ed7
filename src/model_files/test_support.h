#pragma once

// For the tests of this folder: writers of small model files, and a folder that goes away.

#include <stdlib.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace model_files::test {

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <class T>
std::string Packed(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// A temporary folder, removed with everything in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "emberbank_test_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Writes a file, with the folders above it, and returns its path.
  std::filesystem::path Write(const std::filesystem::path& name, const std::string& content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::filesystem::path path_;
};

// A safetensors file out of its header's JSON and data.
inline std::string Safetensors(const std::string& header, const std::string& data) {
  return Packed(static_cast<std::uint64_t>(header.size())) + header + data;
}

// Writes GGUF files of version 3.
class GgufWriter {
 public:
  static std::string Text(std::string_view text) {
    return Packed(static_cast<std::uint64_t>(text.size())) + std::string(text);
  }

  GgufWriter& Raw(std::string_view key, std::uint32_t type, const std::string& value) {
    entries_ += Text(key) + Packed(type) + value;
    ++n_entries_;
    return *this;
  }
  GgufWriter& Set(std::string_view key, std::uint32_t value) { return Raw(key, 4, Packed(value)); }
  GgufWriter& Set(std::string_view key, float value) { return Raw(key, 6, Packed(value)); }
  GgufWriter& Set(std::string_view key, bool value) {
    return Raw(key, 7, Packed(static_cast<std::uint8_t>(value ? 1 : 0)));
  }
  GgufWriter& Set(std::string_view key, std::string_view value) { return Raw(key, 8, Text(value)); }
  GgufWriter& Set(std::string_view key, const char* value) {
    return Set(key, std::string_view(value));
  }
  GgufWriter& Set(std::string_view key, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) {
      all += Text(value);
    }
    return Array(key, 8, values.size(), all);
  }
  GgufWriter& Set(std::string_view key, const std::vector<std::int32_t>& values) {
    std::string all;
    for (const std::int32_t value : values) {
      all += Packed(value);
    }
    return Array(key, 5, values.size(), all);
  }
  GgufWriter& Set(std::string_view key, const std::vector<float>& values) {
    std::string all;
    for (const float value : values) {
      all += Packed(value);
    }
    return Array(key, 6, values.size(), all);
  }
  GgufWriter& Array(std::string_view key, std::uint32_t element_type, std::uint64_t count,
                    const std::string& elements) {
    return Raw(key, 9, Packed(element_type) + Packed(count) + elements);
  }

  // `dims`: innermost first, as in the file.
  GgufWriter& Tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                     std::uint32_t type, const std::string& data) {
    infos_ += Text(name) + Packed(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t extent : dims) {
      infos_ += Packed(extent);
    }
    infos_ += Packed(type) + Packed(static_cast<std::uint64_t>(data_.size()));
    ++n_tensors_;
    data_ += data;
    data_.resize((data_.size() + kAlignment - 1) / kAlignment * kAlignment);
    return *this;
  }
  // An F32 tensor of zeros.
  GgufWriter& Zeros(std::string_view name, const std::vector<std::uint64_t>& dims) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : dims) {
      count *= extent;
    }
    return Tensor(name, dims, 0, std::string(count * sizeof(float), '\0'));
  }

  [[nodiscard]] std::string Finish(std::uint32_t version = 3) const {
    std::string file =
        "GGUF" + Packed(version) + Packed(n_tensors_) + Packed(n_entries_) + entries_ + infos_;
    file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
    return file + data_;
  }

 private:
  static constexpr std::size_t kAlignment = 32;
  std::string entries_;
  std::string infos_;
  std::string data_;
  std::uint64_t n_entries_ = 0;
  std::uint64_t n_tensors_ = 0;
};

// Metadata and tensors of a small model of `architecture`: 2 layers, 4 heads over 2 K/V heads.
inline GgufWriter SmallModel(const std::string& architecture) {
  const std::string a = architecture + ".";
  GgufWriter w;
  w.Set("general.architecture", architecture.c_str())
      .Set(a + "context_length", 512U)
      .Set(a + "embedding_length", 32U)
      .Set(a + "feed_forward_length", 64U)
      .Set(a + "block_count", 2U)
      .Set(a + "attention.head_count", 4U)
      .Set(a + "attention.head_count_kv", 2U)
      .Set(a + "attention.layer_norm_rms_epsilon", 1e-6F)
      .Set(a + "rope.freq_base", 5000.0F)
      .Set("tokenizer.ggml.model", "gpt2")
      .Set("tokenizer.ggml.pre", "qwen2")
      .Set("tokenizer.ggml.tokens",
           std::vector<std::string>{"a", "b", "<|im_start|>", "<|im_end|>", "<|endoftext|>"})
      .Set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 3, 3, 3})
      .Set("tokenizer.ggml.merges", std::vector<std::string>{"a b"})
      .Set("tokenizer.ggml.bos_token_id", 2U);
  w.Zeros("token_embd.weight", {32, 5}).Zeros("output_norm.weight", {32});
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string prefix = layer;
    w.Zeros(prefix + "attn_norm.weight", {32}).Zeros(prefix + "attn_q.weight", {32, 32});
    w.Zeros(prefix + "attn_k.weight", {32, 16}).Zeros(prefix + "ffn_norm.weight", {32});
  }
  return w;
}

}  // namespace model_files::test
