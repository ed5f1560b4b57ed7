#include "api/responses_input.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "api/openai_messages.h"
#include "api/openai_tools.h"
#include "api/reasoning_seal.h"
#include "base/log.h"

namespace api {
namespace {

using chat::Message;
using chat::Role;

constexpr std::string_view kNamespaceSeparator = "__";

std::string VisibleName(std::string_view name_space, std::string_view name) {
  return name_space.empty() ? std::string(name)
                            : fmt::format("{}{}{}", name_space, kNamespaceSeparator, name);
}

// Items to messages, one after the other; the first fault ends it.
class ItemReader {
 public:
  explicit ItemReader(std::vector<Message>& messages) : messages_(messages) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  void Read(const Json& item, const std::string& name) {
    if (!item.is_object()) {
      error_ = Error{.code = ErrorCode::kInvalidRequest,
                     .message = fmt::format("`{}` must be an object, got {}.", name, KindOf(item)),
                     .param = name};
      return;
    }
    FieldReader fields(item, name + ".");
    const std::string type = fields.String("type").value_or("message");
    if (type == "message") {
      ReadMessage(fields);
    } else if (type == "reasoning") {
      ReadReasoning(fields);
    } else if (type == "function_call" || type == "custom_tool_call" ||
               type == "local_shell_call") {
      ReadCall(fields, type);
    } else if (type == "function_call_output" || type == "custom_tool_call_output" ||
               type == "local_shell_call_output") {
      messages_.push_back({.role = Role::kTool,
                           .content = ReadText(fields, "output"),
                           .tool_call_id = fields.String("call_id").value_or("")});
      reply_is_open_ = false;
    } else {
      spdlog::debug("an input item of type {} is left out", type.substr(0, 80));
    }
    error_ = fields.error();
  }

 private:
  void ReadMessage(FieldReader& fields) {
    const std::string role = fields.String("role").value_or("user");
    if (role == "assistant") {
      std::string text = ReadText(fields, "content");
      Message& reply = OpenReply(/*fits=*/!HasText() && !HasCalls());
      reply.content = std::move(text);
      return;
    }
    reply_is_open_ = false;
    const Role known = role == "system"      ? Role::kSystem
                       : role == "developer" ? Role::kDeveloper
                                             : Role::kUser;
    messages_.push_back({.role = known, .content = ReadText(fields, "content")});
  }

  // The text that was sealed is the whole of it; a summary may be shorter.
  void ReadReasoning(FieldReader& fields) {
    std::optional<std::string> text =
        UnsealReasoning(fields.String("encrypted_content").value_or(""));
    for (const char* list : {"content", "summary"}) {
      if (!text || text->empty()) {
        text = ReadText(fields, list);
      }
    }
    if (!text->empty()) {
      OpenReply(/*fits=*/!HasText() && !HasCalls()).reasoning = std::move(text);
    }
  }

  void ReadCall(FieldReader& fields, std::string_view type) {
    chat::ToolCall call;
    call.id = fields.String("call_id").value_or("");
    call.name =
        VisibleName(fields.String("namespace").value_or(""), fields.String("name").value_or(""));
    if (type == "custom_tool_call") {
      call.arguments = {{"input", fields.String("input").value_or("")}};
    } else if (type == "local_shell_call") {
      const Json* action = fields.Object("action");
      call.name = "local_shell";
      call.arguments = action == nullptr ? Json::object() : *action;
    } else {
      call.arguments = ReadArguments(fields);
    }
    if (call.name.empty()) {
      fields.FailField("name", "must be the name of the tool that was called.");
    }
    OpenReply(/*fits=*/true).tool_calls.push_back(std::move(call));
  }

  [[nodiscard]] bool HasText() const { return reply_is_open_ && !messages_.back().content.empty(); }
  [[nodiscard]] bool HasCalls() const {
    return reply_is_open_ && !messages_.back().tool_calls.empty();
  }

  // The assistant message that the item belongs to; a new one unless it `fits` the open one.
  Message& OpenReply(bool fits) {
    if (!reply_is_open_ || !fits) {
      messages_.push_back({.role = Role::kAssistant});
      reply_is_open_ = true;
    }
    return messages_.back();
  }

  std::vector<Message>& messages_;
  bool reply_is_open_ = false;
  std::optional<Error> error_;
};

// One tool in the chat API's form, and how it is called here.
class ToolConverter {
 public:
  ToolConverter(FieldReader& fields, ResponsesTools& tools) : fields_(fields), tools_(tools) {}

  void Convert(const Json& tool, const std::string& name, const std::string& name_space) {
    if (!tool.is_object()) {
      fields_.FailField(name, fmt::format("must be an object, got {}.", KindOf(tool)));
      return;
    }
    FieldReader reader(tool, name + ".");
    const std::string type = reader.String("type").value_or("function");
    if (type == "namespace") {
      ConvertNamespace(reader, name);
    } else if (type == "function" || type == "custom") {
      Add(reader, type == "custom", name_space);
    } else {
      spdlog::warn("the tool of type {} is not offered: it runs on OpenAI's servers only",
                   type.substr(0, 80));
    }
    if (reader.error()) {
      fields_.FailWith(*reader.error());
    }
  }

  [[nodiscard]] Json Take() { return std::move(converted_); }

 private:
  void ConvertNamespace(FieldReader& reader, const std::string& name) {
    const std::string inner_name = reader.String("name").value_or("");
    if (const Json* inner = reader.Array("tools")) {
      for (std::size_t i = 0; i < inner->size(); ++i) {
        Convert((*inner)[i], fmt::format("{}.tools[{}]", name, i), inner_name);
      }
    }
  }

  void Add(FieldReader& reader, bool custom, const std::string& name_space) {
    ResponsesTool tool{
        .kind = custom ? ResponsesTool::Kind::kCustom : ResponsesTool::Kind::kFunction,
        .name = reader.String("name").value_or(""),
        .name_space = name_space};
    if (tool.name.empty()) {
      reader.FailField("name", "must be the name of the tool.");
      return;
    }
    const std::string visible = VisibleName(name_space, tool.name);
    Json function = {{"name", visible}};
    std::string description = reader.String("description").value_or("");
    if (custom) {
      AddFormat(reader, description);
      function["parameters"] = {{"type", "object"},
                                {"properties", {{"input", {{"type", "string"}}}}},
                                {"required", {"input"}}};
    } else if (const Json* parameters = reader.Object("parameters")) {
      function["parameters"] = *parameters;
    }
    if (!description.empty()) {
      function["description"] = description;
    }
    converted_.push_back({{"type", "function"},
                          {"function", std::move(function)},
                          {"strict", reader.Bool("strict").value_or(false)}});
    tools_.emplace(visible, std::move(tool));
  }

  // A custom tool's grammar stands in its description: the model has to see it.
  static void AddFormat(FieldReader& reader, std::string& description) {
    const Json* format = reader.Object("format");
    const Json definition = format == nullptr ? Json() : format->value("definition", Json());
    if (definition.is_string()) {
      description += fmt::format(
          "{}The input follows this {} grammar:\n{}", description.empty() ? "" : "\n\n",
          format->value("syntax", Json("lark")).dump(), definition.get_ref<const std::string&>());
    }
  }

  FieldReader& fields_;
  ResponsesTools& tools_;
  Json converted_ = Json::array();
};

// The function by which the model knows the tool {"type": ..., "name": N}.
Json NamedFunction(FieldReader& tool) {
  return {{"name",
           VisibleName(tool.String("namespace").value_or(""), tool.String("name").value_or(""))}};
}

// A tool_choice with the chat API's names.
Json ChoiceToChat(FieldReader& fields) {
  const Json* choice = fields.Find("tool_choice");
  if (choice == nullptr || !choice->is_object()) {
    return choice == nullptr ? Json() : *choice;
  }
  FieldReader reader(*choice, "tool_choice.");
  const std::string type = reader.String("type").value_or("");
  Json result = "auto";
  if (type == "function" || type == "custom") {
    result = {{"type", "function"}, {"function", NamedFunction(reader)}};
  } else if (type == "allowed_tools") {
    Json names = Json::array();
    const Json* list = reader.Array("tools");
    for (const Json& tool : list == nullptr ? Json::array() : *list) {
      if (tool.is_object() && tool.contains("name")) {  // those of OpenAI's own servers have none
        FieldReader named(tool);
        names.push_back({{"function", NamedFunction(named)}});
      }
    }
    result = {{"type", type}, {"mode", reader.String("mode").value_or("auto")}, {"tools", names}};
  }
  if (reader.error()) {
    fields.FailWith(*reader.error());
  }
  return result;
}

}  // namespace

OfferedTools ReadResponsesTools(FieldReader& fields, ResponsesTools& tools) {
  ToolConverter converter(fields, tools);
  if (const Json* list = fields.Array("tools")) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      converter.Convert((*list)[i], fmt::format("tools[{}]", i), {});
    }
  }
  Json chat_form = {{"tools", converter.Take()}, {"tool_choice", ChoiceToChat(fields)}};
  if (const Json* parallel = fields.Find("parallel_tool_calls")) {
    chat_form["parallel_tool_calls"] = *parallel;
  }
  if (fields.error()) {
    return {};
  }
  FieldReader chat_fields(chat_form);
  Result<OfferedTools> offered = ReadTools(chat_fields);
  if (!offered) {
    fields.FailWith(offered.error());
    return {};
  }
  return std::move(*offered);
}

Result<std::vector<chat::Message>> ReadResponsesItems(const std::string& instructions,
                                                      const Json& earlier, const Json& input) {
  std::vector<Message> messages;
  if (!instructions.empty()) {
    messages.push_back({.role = Role::kSystem, .content = instructions});
  }
  ItemReader reader(messages);
  for (const auto& [list, name] : {std::pair<const Json*, std::string_view>{&earlier, "earlier"},
                                   std::pair<const Json*, std::string_view>{&input, "input"}}) {
    for (std::size_t i = 0; i < list->size() && !reader.error(); ++i) {
      reader.Read((*list)[i], fmt::format("{}[{}]", name, i));
    }
  }
  if (reader.error()) {
    return Fail(*reader.error());
  }
  return messages;
}

}  // namespace api
