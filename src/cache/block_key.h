#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "base/token_constraint.h"

namespace cache {

// Names a block of tokens with all that came before it: SHA-256 over (key of the block before,
// tokens). Two equal keys mean equal prefixes under the same salt; a collision cannot be made by
// choosing prompts.
using BlockKey = std::array<std::uint8_t, 32>;

struct BlockKeyHash {
  [[nodiscard]] std::size_t operator()(const BlockKey& key) const {
    std::size_t value = 0;
    std::memcpy(&value, key.data(), sizeof(value));
    return value;
  }
};

// Makes keys. Holds OpenSSL's digest state: not thread-safe.
class BlockHasher {
 public:
  BlockHasher();

  // Parent key of a tenant's first blocks.
  [[nodiscard]] BlockKey Root(std::string_view salt);

  // Key of the block `tokens` that follows the block (or root) named `parent`.
  [[nodiscard]] BlockKey Next(const BlockKey& parent, std::span<const TokenId> tokens);

 private:
  struct FreeContext {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  struct FreeDigest {
    void operator()(EVP_MD* digest) const { EVP_MD_free(digest); }
  };
  [[nodiscard]] BlockKey Digest(std::span<const std::uint8_t> head,
                                std::span<const std::uint8_t> tail);

  std::unique_ptr<EVP_MD, FreeDigest> sha256_;
  std::unique_ptr<EVP_MD_CTX, FreeContext> context_;
};

}  // namespace cache
