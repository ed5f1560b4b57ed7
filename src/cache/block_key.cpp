#include "cache/block_key.h"

#include <spdlog/spdlog.h>

#include <cstdlib>

namespace cache {
namespace {

// First bytes of every root: a change of the scheme makes all keys differ.
constexpr std::string_view kScheme = "emberbank kv block 1\n";

std::span<const std::uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

BlockHasher::BlockHasher()
    : sha256_(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context_(EVP_MD_CTX_new()) {}

BlockKey BlockHasher::Digest(std::span<const std::uint8_t> head,
                             std::span<const std::uint8_t> tail) {
  BlockKey key;
  const bool ok = EVP_DigestInit_ex2(context_.get(), sha256_.get(), nullptr) == 1 &&
                  EVP_DigestUpdate(context_.get(), head.data(), head.size()) == 1 &&
                  EVP_DigestUpdate(context_.get(), tail.data(), tail.size()) == 1 &&
                  EVP_DigestFinal_ex(context_.get(), key.data(), nullptr) == 1;
  if (!ok) {
    // No SHA-256 at all (a broken OpenSSL installation): a wrong key would mix prompts up.
    spdlog::critical("[cache] OpenSSL cannot compute SHA-256");
    std::abort();
  }
  return key;
}

BlockKey BlockHasher::Root(std::string_view salt) { return Digest(Bytes(kScheme), Bytes(salt)); }

BlockKey BlockHasher::Next(const BlockKey& parent, std::span<const TokenId> tokens) {
  // kv_file.cpp asserts that the machine is little-endian, which is the order on disk.
  return Digest(parent,
                {reinterpret_cast<const std::uint8_t*>(tokens.data()), tokens.size_bytes()});
}

}  // namespace cache
