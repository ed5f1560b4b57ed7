#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model_files/model_source.h"
#include "model_files/opening.h"

namespace model_files {

// Tokenizer, special tokens and chat templates of a Hugging Face directory. Templates:
// chat_template.jinja, else chat_template.json, else tokenizer_config.json (a text, or a list of
// named ones); further named ones in additional_chat_templates/. Errors: kBadModel when
// tokenizer.json is missing or a JSON file is damaged, kIo.
[[nodiscard]] Result<TokenizerFiles> ReadTokenizerFiles(OpenDepth depth,
                                                        const std::filesystem::path& directory);

// End tokens that the tokenizer's files name: its eos_token, and the end-of-turn tokens that the
// chat template writes.
[[nodiscard]] std::vector<std::int64_t> FindEndTokens(const TokenizerFiles& files);

}  // namespace model_files
