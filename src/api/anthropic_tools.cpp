#include "api/anthropic_tools.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "api/openai_tools.h"
#include "base/log.h"

namespace api {
namespace {

// The tool in OpenAI's form, which templates print; nothing when there is a fault or the tool is
// one of Anthropic's own.
std::optional<Json> ToOpenAi(FieldReader& fields, const Json& tool, const std::string& name) {
  if (!tool.is_object()) {
    fields.FailField(name, fmt::format("must be an object, got {}.", KindOf(tool)));
    return std::nullopt;
  }
  FieldReader reader(tool, name + ".");
  const std::string type = reader.String("type").value_or("custom");
  const std::string tool_name = reader.String("name").value_or("");
  if (type != "custom" && tool.find("input_schema") == tool.end()) {
    spdlog::warn("the tool {} of type {} is not offered: it runs on Anthropic's servers only",
                 tool_name.substr(0, 80), type.substr(0, 80));
    return std::nullopt;
  }
  if (tool_name.empty()) {
    reader.FailField("name", "must be the name of the tool.");
  }
  Json function = {{"name", tool_name}};
  if (const auto description = reader.String("description")) {
    function["description"] = *description;
  }
  if (const Json* schema = reader.Object("input_schema")) {
    function["parameters"] = *schema;
  }
  if (reader.error()) {
    fields.FailWith(*reader.error());
    return std::nullopt;
  }
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

// {"type": "any"} -> "required", {"type": "tool", "name": N} -> OpenAI's named function.
Json ChoiceToOpenAi(FieldReader& fields) {
  const Json* choice = fields.Object("tool_choice");
  if (choice == nullptr) {
    return nullptr;
  }
  FieldReader reader(*choice, "tool_choice.");
  const std::string type = reader.String("type").value_or("");
  Json result;
  if (type == "auto" || type == "none") {
    result = type;
  } else if (type == "any") {
    result = "required";
  } else if (type == "tool") {
    result = {{"type", "function"}, {"function", {{"name", reader.String("name").value_or("")}}}};
  } else {
    reader.FailField("type", fmt::format("must be \"auto\", \"any\", \"tool\" or \"none\", got {}.",
                                         DumpJson(type.substr(0, 40))));
  }
  if (reader.error()) {
    fields.FailWith(*reader.error());
  }
  return result;
}

}  // namespace

void ReadAnthropicTools(FieldReader& fields, std::vector<chat::ToolSpec>& tools,
                        std::vector<chat::ToolSpec>& deferred) {
  Json front = {{"tools", Json::array()}};
  Json later = {{"tools", Json::array()}};
  if (const Json* list = fields.Array("tools")) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Json& tool = (*list)[i];
      auto converted = ToOpenAi(fields, tool, fmt::format("tools[{}]", i));
      if (converted) {
        const bool waits = tool.value("defer_loading", Json(false)) == true;
        (waits ? later : front)["tools"].push_back(std::move(*converted));
      }
    }
  }
  front["tool_choice"] = ChoiceToOpenAi(fields);
  if (fields.error()) {
    return;
  }
  FieldReader front_fields(front);
  FieldReader later_fields(later);
  auto front_tools = ReadTools(front_fields);
  auto later_tools = ReadTools(later_fields);
  for (const auto* read : {&front_tools, &later_tools}) {
    if (!*read) {
      fields.FailWith(read->error());
      return;
    }
  }
  tools = std::move(*front_tools);
  deferred = std::move(*later_tools);
}

}  // namespace api
