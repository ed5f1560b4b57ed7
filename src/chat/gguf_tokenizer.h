#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model_files/model_source.h"

namespace chat {

// The vocabulary of a GGUF file (files.gguf must be there) as a Hugging Face tokenizer.json, so
// that one library tokenizes for both. Control tokens become special added tokens, user-defined
// ones plain added tokens. Errors (kBadModel): a kind of vocabulary that is not known, lists of
// unequal length.
[[nodiscard]] Result<std::string> GgufTokenizerJson(const model_files::TokenizerFiles& files);

// How a byte-level vocabulary splits text into words, by GGUF's tokenizer.ggml.pre.
struct PreTokenizer {
  bool known = false;
  Json pre_tokenizer;  // as in tokenizer.json
  bool normalize_nfc = false;
  bool ignore_merges = false;  // a word that is a token needs no merges
};
[[nodiscard]] PreTokenizer PreTokenizerNamed(std::string_view pre);

}  // namespace chat
