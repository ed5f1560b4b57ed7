#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model_files/model_source.h"

namespace chat {

// The vocabulary of a GGUF file in the terms of a Hugging Face tokenizer.json, so that one library
// tokenizes for both.
struct GgufTokenizer {
  std::string json;                 // a tokenizer.json whose model has no vocabulary and no merges
  std::vector<std::string> tokens;  // by id
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // best first
  // What `merges` points into where it is not `tokens`.
  std::vector<std::string> merge_texts;
};

// `files.gguf` must be there; its vocabulary is used up. Control tokens become special added
// tokens, user-defined ones plain added tokens. Errors (kBadModel): a kind of vocabulary that is
// not known, lists of unequal length.
[[nodiscard]] Result<GgufTokenizer> MakeGgufTokenizer(model_files::TokenizerFiles files);

// How a byte-level vocabulary splits text into words, by GGUF's tokenizer.ggml.pre.
struct PreTokenizer {
  bool known = false;
  Json pre_tokenizer;  // as in tokenizer.json
  bool normalize_nfc = false;
  bool ignore_merges = false;  // a word that is a token needs no merges
};
[[nodiscard]] PreTokenizer PreTokenizerNamed(std::string_view pre);

}  // namespace chat
