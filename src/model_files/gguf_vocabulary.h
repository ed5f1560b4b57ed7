#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model_files/gguf_file.h"
#include "model_files/model_source.h"

namespace model_files {

// Vocabulary, special tokens and chat templates out of tokenizer.* metadata. Errors (kBadModel): no
// vocabulary, or lists of unequal length.
[[nodiscard]] Result<TokenizerFiles> ReadGgufTokenizer(const GgufMetadata& metadata,
                                                       std::string_view file_name);

// Ids that end a generation: eos, eot and eom of the metadata, and the special tokens in
// `tokenizer` that are known to end a document, or to end a turn and are written by its template.
[[nodiscard]] std::vector<std::int64_t> ReadGgufEndTokens(const GgufMetadata& metadata,
                                                          const TokenizerFiles& tokenizer);

}  // namespace model_files
