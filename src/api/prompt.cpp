#include "api/prompt.h"

#include <algorithm>
#include <utility>

#include "api/call_memory.h"
#include "api/openai_messages.h"
#include "api/own_turns.h"
#include "api/parsed_reply.h"

namespace api {
namespace {

bool IsSystem(const chat::Message& message) {
  return message.role == chat::Role::kSystem || message.role == chat::Role::kDeveloper;
}

// False when there are none.
bool LaterSystemsAsUser(chat::Conversation& conversation) {
  bool changed = false;
  for (std::size_t i = 1; i < conversation.messages.size(); ++i) {
    if (IsSystem(conversation.messages[i])) {
      conversation.messages[i].role = chat::Role::kUser;
      changed = true;
    }
  }
  return changed;
}

}  // namespace

Result<chat::RenderedPrompt> RenderPrompt(const ServedModel& model, const chat::Conversation& given,
                                          const std::string& owner) {
  chat::Conversation conversation = model.chat_template->Adapted(given);
  Result<chat::RenderedText> text =
      model.chat_template->RenderText(conversation, model.context_length);
  if (!text && text.error().code != ErrorCode::kContextLengthExceeded &&
      LaterSystemsAsUser(conversation)) {
    text = model.chat_template->RenderText(conversation, model.context_length);
  }
  if (!text) {
    return Fail(text.error());
  }
  std::vector<CallMemory::Turns> turns;
  for (const chat::Message& message : given.messages) {
    if (!message.tool_calls.empty()) {
      turns.push_back(model.call_memory->Recall(owner, message.tool_calls));
    }
  }
  return EncodeWithOwnTurns(model, *text, turns, given.tools);
}

Result<GenerationInput> InputOfMessages(const Json& body, const ServedModel& model,
                                        const std::string& owner) {
  Result<chat::Conversation> conversation = ReadConversation(body);
  if (!conversation) {
    return Fail(conversation.error());
  }
  Result<chat::RenderedPrompt> prompt = RenderPrompt(model, *conversation, owner);
  if (!prompt) {
    return Fail(prompt.error());
  }
  return InputOf(std::move(*prompt), std::move(*conversation));
}

Result<std::vector<TokenId>> EncodeMessages(const Json& body, const ServedModel& model,
                                            const std::string& owner) {
  Result<GenerationInput> input = InputOfMessages(body, model, owner);
  if (!input) {
    return Fail(input.error());
  }
  return std::move(input->prompts.front());
}

GenerationInput InputOf(chat::RenderedPrompt prompt, chat::Conversation conversation) {
  GenerationInput input;
  const std::size_t tail = std::min(prompt.text.size(), kPromptTailBytes);
  input.prompt_tail = prompt.text.substr(prompt.text.size() - tail);
  input.prompt_bytes = prompt.text.size();
  input.facts = FactsOf(conversation, prompt.text);
  input.prompts.push_back(std::move(prompt.tokens));
  input.tools = std::move(conversation.tools);
  input.tool_choice = std::move(conversation.tool_choice);
  return input;
}

}  // namespace api
