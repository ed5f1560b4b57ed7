#pragma once

#include <string>
#include <vector>

#include "api/generate.h"
#include "api/served_model.h"
#include "chat/template.h"

namespace api {

// Renders a conversation. Templates that know no system message but the first raise an error: later
// ones are then the user's, in their place, so that a client may add them anywhere. Error besides:
// kContextLengthExceeded for a text that cannot fit the model's context.
// Turns with calls that the model wrote for this client (`owner`: its cache salt) keep the tokens
// that they had (own_turns.h); the text is that of the tokens.
[[nodiscard]] Result<chat::RenderedPrompt> RenderPrompt(const ServedModel& model,
                                                        const chat::Conversation& conversation,
                                                        const std::string& owner);

// The prompt's tokens of a body with `messages` and what goes with them in a chat request.
[[nodiscard]] Result<std::vector<TokenId>> EncodeMessages(const Json& body,
                                                          const ServedModel& model,
                                                          const std::string& owner);

// The same as what to generate from.
[[nodiscard]] Result<GenerationInput> InputOfMessages(const Json& body, const ServedModel& model,
                                                      const std::string& owner);

// A rendered conversation, with its tools and which of them may be called, as what to go on from.
[[nodiscard]] GenerationInput InputOf(chat::RenderedPrompt prompt, chat::Conversation conversation);

}  // namespace api
