#include "api/prompt.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/openai_messages.h"

namespace api {
namespace {

// The end of a prompt that tells a parser whether a think block is open.
constexpr std::size_t kPromptTailBytes = 256;

bool IsSystem(const chat::Message& message) {
  return message.role == chat::Role::kSystem || message.role == chat::Role::kDeveloper;
}

std::string LatestText(const std::vector<chat::Message>& messages) {
  auto begin = messages.end();
  while (begin != messages.begin() && std::prev(begin)->role != chat::Role::kAssistant) {
    --begin;
  }
  std::string text;
  for (auto message = begin; message != messages.end(); ++message) {
    if (!IsSystem(*message)) {
      text += message->content + '\n';
    }
  }
  return text;
}

}  // namespace

Result<chat::RenderedPrompt> RenderPrompt(const ServedModel& model,
                                          const chat::Conversation& given) {
  const chat::Conversation conversation = model.chat_template->Adapted(given);
  Result<chat::RenderedPrompt> prompt =
      model.chat_template->Render(conversation, model.context_length);
  const auto begin = conversation.messages.begin() + (conversation.messages.empty() ? 0 : 1);
  if (prompt || prompt.error().code == ErrorCode::kContextLengthExceeded ||
      std::none_of(begin, conversation.messages.end(), IsSystem)) {
    return prompt;
  }
  chat::Conversation changed = conversation;
  for (std::size_t i = 1; i < changed.messages.size(); ++i) {
    if (IsSystem(changed.messages[i])) {
      changed.messages[i].role = chat::Role::kUser;
    }
  }
  return model.chat_template->Render(changed, model.context_length);
}

Result<GenerationInput> InputOfMessages(const Json& body, const ServedModel& model) {
  Result<chat::Conversation> conversation = ReadConversation(body);
  if (!conversation) {
    return Fail(conversation.error());
  }
  Result<chat::RenderedPrompt> prompt = RenderPrompt(model, *conversation);
  if (!prompt) {
    return Fail(prompt.error());
  }
  return InputOf(std::move(*prompt), std::move(*conversation));
}

Result<std::vector<TokenId>> EncodeMessages(const Json& body, const ServedModel& model) {
  Result<GenerationInput> input = InputOfMessages(body, model);
  if (!input) {
    return Fail(input.error());
  }
  return std::move(input->prompts.front());
}

GenerationInput InputOf(chat::RenderedPrompt prompt, chat::Conversation conversation) {
  GenerationInput input;
  const std::size_t tail = std::min(prompt.text.size(), kPromptTailBytes);
  input.prompt_tail = prompt.text.substr(prompt.text.size() - tail);
  input.facts = FactsOf(conversation, prompt.text);
  input.prompts.push_back(std::move(prompt.tokens));
  input.latest = LatestText(conversation.messages);
  input.tools = std::move(conversation.tools);
  input.tool_choice = std::move(conversation.tool_choice);
  return input;
}

}  // namespace api
