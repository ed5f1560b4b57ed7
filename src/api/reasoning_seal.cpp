#include "api/reasoning_seal.h"

#include <openssl/evp.h>

namespace api {
namespace {

constexpr std::string_view kMark = "emberbank1.";

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string SealReasoning(std::string_view text) {
  std::string base64(4 * ((text.size() + 2) / 3) + 1, '\0');  // EVP_EncodeBlock ends it with a zero
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()), Bytes(text),
                                     static_cast<int>(text.size()));
  base64.resize(static_cast<std::size_t>(length));
  return std::string(kMark) + base64;
}

std::optional<std::string> UnsealReasoning(std::string_view sealed) {
  if (!sealed.starts_with(kMark)) {
    return std::nullopt;
  }
  const std::string_view base64 = sealed.substr(kMark.size());
  std::string text(3 * (base64.size() / 4), '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(text.data()), Bytes(base64),
                                     static_cast<int>(base64.size()));
  if (length < 0) {
    return std::nullopt;
  }
  const std::size_t padding = base64.ends_with("==") ? 2 : base64.ends_with("=") ? 1 : 0;
  text.resize(static_cast<std::size_t>(length) - padding);  // padding is decoded as zeros
  return text;
}

}  // namespace api
