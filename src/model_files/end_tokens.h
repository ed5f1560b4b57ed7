#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace model_files {

// Texts of known end-of-turn tokens that a model with this chat template ends its turn with: those
// that the template itself writes. Without a template (base models): all that never stand inside a
// turn.
[[nodiscard]] std::vector<std::string_view> EndOfTurnTexts(
    const std::optional<std::string>& chat_template);

// Texts of known end-of-document tokens. For files that have no generation_config.json: GGUF.
[[nodiscard]] std::span<const std::string_view> EndOfDocumentTexts();

// One entry of tokenizer.json's "added_tokens".
struct AddedToken {
  std::string text;
  std::int64_t id = -1;
};

// The added tokens of a tokenizer.json. Reads no further than it must: the vocabulary behind them
// may take 30 MB. A damaged file gives what stands before the damage.
[[nodiscard]] std::vector<AddedToken> ReadAddedTokens(std::string_view tokenizer_json);

// Adds `id` unless it is negative or there already.
void AddEndToken(std::vector<std::int64_t>& ids, std::int64_t id);

// Adds the id or the list of ids in `value` (an eos_token_id of config.json).
void AddEndTokens(std::vector<std::int64_t>& ids, const Json& value);

}  // namespace model_files
