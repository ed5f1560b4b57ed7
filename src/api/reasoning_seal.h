#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace api {

// Reasoning that a client keeps without showing it (Anthropic's `signature` with omitted thinking,
// OpenAI's `encrypted_content`): the text travels inside, so that nothing has to be remembered and
// the next turn's prompt is the same. Not secret: it is the client's own conversation.
[[nodiscard]] std::string SealReasoning(std::string_view text);

// The text of what SealReasoning made; nothing for anybody else's signature.
[[nodiscard]] std::optional<std::string> UnsealReasoning(std::string_view sealed);

}  // namespace api
