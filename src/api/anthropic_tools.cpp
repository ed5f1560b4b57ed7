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
  const bool strict = reader.Bool("strict").value_or(false);
  if (reader.error()) {
    fields.FailWith(*reader.error());
    return std::nullopt;
  }
  return Json{{"type", "function"}, {"function", std::move(function)}, {"strict", strict}};
}

// Writes `tool_choice` and what it says of parallel calls as OpenAI's fields:
// {"type": "any"} -> "required", {"type": "tool", "name": N} -> OpenAI's named function.
void ReadChoice(FieldReader& fields, Json& request) {
  const Json* choice = fields.Object("tool_choice");
  if (choice == nullptr) {
    return;
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
  request["tool_choice"] = std::move(result);
  request["parallel_tool_calls"] = !reader.Bool("disable_parallel_tool_use").value_or(false);
  if (reader.error()) {
    fields.FailWith(*reader.error());
  }
}

}  // namespace

void ReadAnthropicTools(FieldReader& fields, chat::Conversation& conversation,
                        std::vector<chat::ToolSpec>& deferred) {
  Json all = {{"tools", Json::array()}};
  std::vector<bool> waits;
  if (const Json* list = fields.Array("tools")) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Json& tool = (*list)[i];
      auto converted = ToOpenAi(fields, tool, fmt::format("tools[{}]", i));
      if (converted) {
        waits.push_back(tool.value("defer_loading", Json(false)) == true);
        all["tools"].push_back(std::move(*converted));
      }
    }
  }
  ReadChoice(fields, all);
  if (fields.error()) {
    return;
  }
  FieldReader all_fields(all);
  Result<OfferedTools> offered = ReadTools(all_fields);
  if (!offered) {
    fields.FailWith(offered.error());
    return;
  }
  for (std::size_t i = 0; i < offered->tools.size(); ++i) {
    (waits[i] ? deferred : conversation.tools).push_back(std::move(offered->tools[i]));
  }
  conversation.tool_choice = std::move(offered->choice);
}

}  // namespace api
