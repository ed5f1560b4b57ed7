#pragma once

#include "chat/conversation.h"

namespace chat {

// The conversation for a template that shows no tools: they are described in the first system
// message (or, where the template has none, before the first user message), earlier calls and
// results stand in the text, all in the wire format that parsers/hermes.cpp reads.
[[nodiscard]] Conversation WithToolsAsText(const Conversation& conversation, bool knows_system);

// Is there anything about tools in it?
[[nodiscard]] bool UsesTools(const Conversation& conversation);

}  // namespace chat
