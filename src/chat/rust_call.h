#pragma once

#include <emberbank_rust.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token_constraint.h"

namespace chat {

// Views and buffers at the border to rust/.

[[nodiscard]] inline EbText AsText(std::string_view text) {
  return EbText{.data = text.data(), .size = text.size()};
}

[[nodiscard]] inline std::string_view AsView(EbText text) { return {text.data, text.size}; }

// A buffer that Rust filled; frees it.
class RustBytes {
 public:
  RustBytes() = default;
  RustBytes(const RustBytes&) = delete;
  RustBytes& operator=(const RustBytes&) = delete;
  ~RustBytes() { eb_bytes_free(bytes_); }

  [[nodiscard]] EbBytes* out() { return &bytes_; }
  [[nodiscard]] std::string str() const {
    return std::string(bytes_.data, bytes_.data + bytes_.size);
  }

 private:
  EbBytes bytes_{.data = nullptr, .size = 0};
};

class RustIds {
 public:
  RustIds() = default;
  RustIds(const RustIds&) = delete;
  RustIds& operator=(const RustIds&) = delete;
  ~RustIds() { eb_ids_free(ids_); }

  [[nodiscard]] EbIds* out() { return &ids_; }
  [[nodiscard]] std::vector<TokenId> tokens() const { return {ids_.data, ids_.data + ids_.size}; }

 private:
  EbIds ids_{.data = nullptr, .size = 0};
};

}  // namespace chat
