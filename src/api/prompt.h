#pragma once

#include <vector>

#include "api/generate.h"
#include "chat/template.h"

namespace api {

// Renders a conversation. Templates that know no system message but the first raise an error: later
// ones are then the user's, in their place, so that a client may add them anywhere.
[[nodiscard]] Result<chat::RenderedPrompt> RenderPrompt(const chat::ChatTemplate& chat_template,
                                                        const chat::Conversation& conversation);

// A rendered conversation and the tools that may be called, as what to go on from.
[[nodiscard]] GenerationInput InputOf(chat::RenderedPrompt prompt,
                                      std::vector<chat::ToolSpec> tools);

}  // namespace api
