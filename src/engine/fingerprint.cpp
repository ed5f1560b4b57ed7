#include "engine/fingerprint.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/json.h"

namespace engine {
namespace {

// Raise when kernels change a bit of any result, or when the meaning of a stored block changes.
constexpr std::string_view kVersion = "emberbank state 1";

constexpr std::size_t kWholeTensorBytes = std::size_t{64} << 10U;
constexpr std::size_t kPieceBytes = 1024;
constexpr std::size_t kPieces = 32;  // 32 KiB of each large tensor: 10 MB of a model of 300 tensors

class Hasher {
 public:
  Hasher() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }

  // Every item is preceded by its length, so that no two lists of items give the same bytes.
  void Add(std::span<const std::byte> bytes) {
    const std::uint64_t size = bytes.size();
    EVP_DigestUpdate(context_.get(), &size, sizeof(size));
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text.data(), text.size()))); }

  [[nodiscard]] std::string Hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
      hex += fmt::format("{:02x}", digest[i]);
    }
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

void AddTensor(Hasher& hasher, const model_files::TensorView& tensor) {
  hasher.Add(tensor.name);
  hasher.Add(tensor.format_name);
  for (const std::int64_t extent : tensor.shape) {
    hasher.Add(std::to_string(extent));
  }
  hasher.Add(std::to_string(tensor.data.size()));
  if (tensor.data.size() <= kWholeTensorBytes) {
    hasher.Add(tensor.data);
    return;
  }
  const std::size_t last = tensor.data.size() - kPieceBytes;
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    hasher.Add(tensor.data.subspan(last / (kPieces - 1) * piece, kPieceBytes));
  }
  hasher.Add(tensor.data.subspan(last, kPieceBytes));
}

void AddTokenizer(Hasher& hasher, const model_files::TokenizerFiles& tokenizer) {
  hasher.Add(tokenizer.tokenizer_json);
  if (tokenizer.gguf) {
    hasher.Add(tokenizer.gguf->model);
    hasher.Add(tokenizer.gguf->pre);
    for (const std::string& token : tokenizer.gguf->tokens) {
      hasher.Add(token);
    }
  }
}

}  // namespace

std::string Fingerprint(const model_files::ModelSource& source, const NumericPath& numeric) {
  Hasher hasher;
  hasher.Add(kVersion);
  const bool native = numeric.path == ops::KernelPath::kNative;
  hasher.Add(native ? ops::Name(numeric.instruction_set) : std::string_view("reference"));
  hasher.Add(ops::Name(numeric.kv_dtype));
  hasher.Add(DumpJson(source.config));
  hasher.Add(source.norm_weights_include_one ? "1" : "0");
  for (const auto& [name, heads] : source.permuted_heads) {
    hasher.Add(name);
    hasher.Add(std::to_string(heads));
  }
  for (const auto& [name, tensor] : source.tensors) {
    AddTensor(hasher, tensor);
  }
  AddTokenizer(hasher, source.tokenizer);
  return hasher.Hex();
}

}  // namespace engine
