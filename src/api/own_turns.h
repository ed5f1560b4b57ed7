#pragma once

#include <vector>

#include "api/call_memory.h"
#include "api/served_model.h"
#include "base/result.h"
#include "chat/template.h"

namespace api {

// Encodes a rendered conversation, but turns that the model itself wrote keep the tokens that they
// had, however the client and the template write them now: the bank has those. A turn is known by
// the prompt before it, token for token, and its rendering has to say the very same (content,
// reasoning and calls as the model's parser understands them); else it is encoded as it stands.
// `turns`: of each message with calls, in their order, what CallMemory knows. The text returned is
// that of the tokens.
[[nodiscard]] Result<chat::RenderedPrompt> EncodeWithOwnTurns(
    const ServedModel& model, const chat::RenderedText& rendered,
    const std::vector<CallMemory::Turns>& turns, const std::vector<chat::ToolSpec>& tools);

}  // namespace api
