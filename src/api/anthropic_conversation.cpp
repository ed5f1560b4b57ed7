#include "api/anthropic_conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/anthropic_tools.h"
#include "api/reasoning_seal.h"

namespace api {
namespace {

using chat::Message;
using chat::Role;

// Between the text blocks of one message.
constexpr std::string_view kBlockSeparator = "\n\n";

void AppendBlock(std::string& text, std::string_view block) {
  if (!text.empty() && !block.empty()) {
    text += kBlockSeparator;
  }
  text += block;
}

// Reads the messages, one after the other; the first fault ends it.
class MessageReader {
 public:
  MessageReader(AnthropicConversation& result, const Normalizer& normalizer)
      : messages_(result.conversation.messages),
        deferred_(result.deferred_tools),
        left_out_(result.left_out),
        normalizer_(normalizer) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  void ReadSystem(const Json& system) {
    std::string text;
    if (system.is_string()) {
      text = Normalized(system.get<std::string>());
    } else if (system.is_array()) {
      for (std::size_t i = 0; i < system.size() && !error_; ++i) {
        AppendBlock(text, Normalized(TextOf(system[i], fmt::format("system[{}]", i))));
      }
    } else {
      FailAt("system",
             fmt::format("must be a string or a list of text blocks, got {}.", KindOf(system)));
    }
    if (!text.empty()) {
      messages_.push_back({.role = Role::kSystem, .content = std::move(text)});
    }
  }

  void ReadMessage(const Json& json, const std::string& name) {
    if (!json.is_object()) {
      FailAt(name, fmt::format("must be an object, got {}.", KindOf(json)));
      return;
    }
    const Json role = json.value("role", Json());
    if (!role.is_string()) {
      FailAt(name + ".role", fmt::format("must be a string, got {}.", KindOf(role)));
      return;
    }
    results_added_ = false;
    const std::size_t left_out = left_out_.size();
    Message message;
    message.role = role == "assistant"                       ? Role::kAssistant
                   : role == "system" || role == "developer" ? Role::kSystem
                                                             : Role::kUser;
    const Json content = json.value("content", Json());
    if (content.is_string()) {
      message.content = message.role == Role::kAssistant ? content.get<std::string>()
                                                         : Normalized(content.get<std::string>());
    } else if (content.is_array()) {
      ReadBlocks(content, name + ".content", message);
    } else if (!content.is_null()) {
      FailAt(name + ".content",
             fmt::format("must be a string or a list of blocks, got {}.", KindOf(content)));
    }
    // A message of tool results alone has become tool messages.
    const bool is_spent = results_added_ || left_out < left_out_.size();
    if (!is_spent || !message.content.empty()) {
      messages_.push_back(std::move(message));
    }
  }

 private:
  void FailAt(const std::string& name, std::string_view rest) {
    if (!error_) {
      error_ = Error{.code = ErrorCode::kInvalidRequest,
                     .message = fmt::format("`{}` {}", name, rest),
                     .param = name};
    }
  }

  // The text, or nothing where a rule leaves it out.
  std::string Normalized(std::string text) {
    std::string rule = normalizer_.RuleFor(text);
    if (rule.empty()) {
      return text;
    }
    left_out_.push_back(std::move(rule));
    return {};
  }

  // A string field of a block; absent: empty.
  std::string Text(const Json& block, const char* field, const std::string& name) {
    const auto found = block.find(field);
    if (found == block.end() || found->is_null()) {
      return {};
    }
    if (!found->is_string()) {
      FailAt(fmt::format("{}.{}", name, field),
             fmt::format("must be a string, got {}.", KindOf(*found)));
      return {};
    }
    return found->get<std::string>();
  }

  // What a block that is no part of the conversation's structure says.
  std::string TextOf(const Json& block, const std::string& name) {
    if (block.is_string()) {
      return block.get<std::string>();
    }
    if (!block.is_object()) {
      FailAt(name, fmt::format("must be an object, got {}.", KindOf(block)));
      return {};
    }
    const std::string type = Text(block, "type", name);
    if (type == "text") {
      return Text(block, "text", name);
    }
    if (type == "image") {
      FailAt(name + ".type", "must not be \"image\": this model takes text only.");
      return {};
    }
    if (type == "document") {
      return DocumentText(block, name);
    }
    if (type == "tool_reference") {
      const std::string tool = Text(block, "tool_name", name);
      const auto found = std::ranges::find(deferred_, tool, &chat::ToolSpec::name);
      return found == deferred_.end() ? tool : DumpJson(found->original);
    }
    return DumpJson(block);  // unknown kinds are shown as they are, not refused
  }

  std::string DocumentText(const Json& block, const std::string& name) {
    const Json source = block.value("source", Json::object());
    const std::string kind =
        source.is_object() ? Text(source, "type", name + ".source") : std::string();
    if (kind == "text") {
      return Text(source, "data", name + ".source");
    }
    if (kind == "content") {
      return Joined(source.value("content", Json()), name + ".source.content");
    }
    FailAt(name + ".source.type",
           fmt::format("must be \"text\" or \"content\", got \"{}\": this model takes text only.",
                       kind.substr(0, 40)));
    return {};
  }

  // A string, a list of blocks or nothing.
  std::string Joined(const Json& content, const std::string& name) {
    if (content.is_null()) {
      return {};
    }
    if (content.is_string()) {
      return content.get<std::string>();
    }
    if (!content.is_array()) {
      FailAt(name, fmt::format("must be a string or a list of blocks, got {}.", KindOf(content)));
      return {};
    }
    std::string text;
    for (std::size_t i = 0; i < content.size() && !error_; ++i) {
      AppendBlock(text, TextOf(content[i], fmt::format("{}[{}]", name, i)));
    }
    return text;
  }

  void ReadBlocks(const Json& blocks, const std::string& name, Message& message) {
    for (std::size_t i = 0; i < blocks.size() && !error_; ++i) {
      const Json& block = blocks[i];
      const std::string block_name = fmt::format("{}[{}]", name, i);
      const std::string type = block.is_object() ? Text(block, "type", block_name) : std::string();
      if (type == "tool_result") {
        AddResult(block, block_name);
      } else if (message.role != Role::kAssistant) {
        AppendBlock(message.content, Normalized(TextOf(block, block_name)));
      } else if (type == "tool_use") {
        AddCall(block, block_name, message);
      } else if (type == "thinking" || type == "redacted_thinking") {
        AddThinking(block, block_name, type == "thinking" ? "signature" : "data", message);
      } else {
        // Our own text blocks of one reply were one text.
        message.content += TextOf(block, block_name);
      }
    }
  }

  // Before the message that holds it: templates want results right behind the calls.
  void AddResult(const Json& block, const std::string& name) {
    Message result;
    result.role = Role::kTool;
    result.tool_call_id = Text(block, "tool_use_id", name);
    result.content = Joined(block.value("content", Json()), name + ".content");
    if (result.content.empty() && block.value("is_error", Json(false)) == true) {
      result.content = "error";
    }
    result.name = NameOfCall(result.tool_call_id);
    messages_.push_back(std::move(result));
    results_added_ = true;
  }

  [[nodiscard]] std::string NameOfCall(const std::string& id) const {
    for (auto message = messages_.rbegin(); message != messages_.rend(); ++message) {
      for (const chat::ToolCall& call : message->tool_calls) {
        if (call.id == id) {
          return call.name;
        }
      }
    }
    return {};
  }

  void AddCall(const Json& block, const std::string& name, Message& message) {
    chat::ToolCall call;
    call.id = Text(block, "id", name);
    call.name = Text(block, "name", name);
    if (call.name.empty()) {
      FailAt(name + ".name", "must be the name of the tool that was called.");
    }
    const Json input = block.value("input", Json::object());
    if (input.is_object()) {
      call.arguments = input;
    } else {
      FailAt(name + ".input", fmt::format("must be an object, got {}.", KindOf(input)));
    }
    message.tool_calls.push_back(std::move(call));
  }

  void AddThinking(const Json& block, const std::string& name, const char* sealed,
                   Message& message) {
    std::string text = Text(block, "thinking", name);
    if (text.empty()) {
      text = UnsealReasoning(Text(block, sealed, name)).value_or("");
    }
    if (!text.empty()) {
      message.reasoning = message.reasoning.value_or("") + text;
    }
  }

  std::vector<Message>& messages_;
  const std::vector<chat::ToolSpec>& deferred_;
  std::vector<std::string>& left_out_;
  const Normalizer& normalizer_;
  bool results_added_ = false;  // by the message being read
  std::optional<Error> error_;
};

// A last message of the assistant is the beginning of the reply.
void MarkContinuation(chat::Conversation& conversation) {
  const Message& last = conversation.messages.back();
  conversation.continue_final_message =
      last.role == Role::kAssistant && !last.content.empty() && last.tool_calls.empty();
  conversation.add_generation_prompt = !conversation.continue_final_message;
}

}  // namespace

Result<AnthropicConversation> ReadAnthropicConversation(const Json& body,
                                                        const Normalizer& normalizer) {
  FieldReader fields(body);
  const Json* list = fields.Array("messages");
  if (!fields.error() && (list == nullptr || list->empty())) {
    fields.FailField("messages", list == nullptr
                                     ? "is missing: a list of at least one message is expected."
                                     : "must have at least one message, got an empty list.");
  }
  AnthropicConversation result;
  ReadAnthropicTools(fields, result.conversation, result.deferred_tools);
  if (const Json* thinking = fields.Object("thinking")) {
    const Json type = thinking->value("type", Json());
    if (type == "enabled" || type == "disabled") {
      result.conversation.template_kwargs["enable_thinking"] = type == "enabled";
    }
  }
  if (fields.error()) {
    return Fail(*fields.error());
  }
  MessageReader reader(result, normalizer);
  if (const Json* system = fields.Find("system")) {
    reader.ReadSystem(*system);
  }
  for (std::size_t i = 0; i < list->size() && !reader.error(); ++i) {
    reader.ReadMessage((*list)[i], fmt::format("messages[{}]", i));
  }
  if (reader.error()) {
    return Fail(*reader.error());
  }
  if (result.conversation.messages.empty()) {
    result.conversation.messages.push_back({});  // nothing but what is left out
  }
  MarkContinuation(result.conversation);
  return result;
}

}  // namespace api
