#pragma once

#include <string_view>

namespace models {

// ChatML, which the templates of several families extend: their fallback_chat_template.
inline constexpr std::string_view kChatMlTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace models
