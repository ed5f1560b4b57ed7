#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "api/generate.h"
#include "chat/template.h"

namespace api {

// The end of a prompt that tells a parser whether a think block is open.
inline constexpr std::size_t kPromptTailBytes = 256;

// A rendered conversation and the tools that may be called, as what to go on from.
[[nodiscard]] inline GenerationInput InputOf(chat::RenderedPrompt prompt,
                                             std::vector<chat::ToolSpec> tools) {
  GenerationInput input;
  const std::size_t tail = std::min(prompt.text.size(), kPromptTailBytes);
  input.prompt_tail = prompt.text.substr(prompt.text.size() - tail);
  input.prompts.push_back(std::move(prompt.tokens));
  input.tools = std::move(tools);
  return input;
}

}  // namespace api
