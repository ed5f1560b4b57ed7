#include "api/openai_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace api {
namespace {

std::optional<chat::ToolSpec> ReadTool(FieldReader& fields, const std::string& name,
                                       const Json& json) {
  if (!json.is_object()) {
    fields.FailField(name, fmt::format("must be an object, got {}.", KindOf(json)));
    return std::nullopt;
  }
  FieldReader tool(json, name + ".");
  const std::string type = tool.String("type").value_or("function");
  if (!tool.error() && type != "function") {
    tool.FailField("type",
                   fmt::format("must be \"function\", got {}.", DumpJson(type.substr(0, 40))));
  }
  const Json* function = tool.Object("function");
  if (function == nullptr) {
    tool.FailField("function", "must be an object with name and parameters.");
    fields.FailWith(*tool.error());
    return std::nullopt;
  }
  FieldReader inner(*function, name + ".function.");
  chat::ToolSpec spec;
  spec.name = inner.String("name").value_or("");
  spec.description = inner.String("description").value_or("");
  spec.strict = inner.Bool("strict").value_or(tool.Bool("strict").value_or(false));
  if (spec.name.empty()) {
    inner.FailField("name", "must be the name of the function.");
  }
  if (const Json* parameters = inner.Object("parameters")) {
    spec.parameters = *parameters;
  }
  spec.original = json;
  spec.original.erase("strict");  // of other protocols' tools, which templates do not print
  for (const FieldReader* reader : {&tool, &inner}) {
    if (reader->error()) {
      fields.FailWith(*reader->error());
      return std::nullopt;
    }
  }
  return spec;
}

bool IsOffered(const std::vector<chat::ToolSpec>& tools, std::string_view name) {
  return std::ranges::any_of(tools, [&](const chat::ToolSpec& tool) { return tool.name == name; });
}

// {"type": "function", "function": {"name": ...}}
void ReadNamedChoice(FieldReader& fields, const Json& choice, OfferedTools& offered) {
  const auto function = choice.find("function");
  const bool nested = function != choice.end() && function->is_object();
  const Json& holder = nested ? *function : choice;
  const auto name = holder.find("name");
  if (name == holder.end() || !name->is_string()) {
    fields.FailField("tool_choice",
                     "must name a function: {\"type\": \"function\", \"function\": "
                     "{\"name\": ...}}.");
    return;
  }
  const auto& text = name->get_ref<const std::string&>();
  if (!IsOffered(offered.tools, text)) {
    fields.FailField("tool_choice", fmt::format("names the function {}, which is not in `tools`.",
                                                DumpJson(text.substr(0, 80))));
    return;
  }
  offered.choice.must_call = true;
  offered.choice.names = {text};
}

// {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}
void ReadAllowedTools(FieldReader& fields, const Json& choice, OfferedTools& offered) {
  FieldReader outer(choice, "tool_choice.");
  const Json* nested = outer.Object("allowed_tools");
  FieldReader inner(nested == nullptr ? choice : *nested, "tool_choice.allowed_tools.");
  offered.choice.must_call = inner.String("mode").value_or("auto") == "required";
  const Json* list = inner.Array("tools");
  for (const Json& tool : list == nullptr ? Json::array() : *list) {
    const Json function = tool.value("function", tool);
    const Json name = function.value("name", Json());
    if (!name.is_string() || !IsOffered(offered.tools, name.get_ref<const std::string&>())) {
      inner.FailField("tools", "must name functions that are in `tools`.");
      break;
    }
    offered.choice.names.push_back(name.get<std::string>());
  }
  if (list == nullptr || list->empty()) {
    inner.FailField("tools", "must be a list of at least one function.");
  }
  for (const FieldReader* reader : {&outer, &inner}) {
    if (reader->error()) {
      fields.FailWith(*reader->error());
    }
  }
}

// Returns whether tools are shown.
bool ReadChoice(FieldReader& fields, OfferedTools& offered) {
  const Json* choice = fields.Find("tool_choice");
  if (choice == nullptr || *choice == "auto") {
    return true;
  }
  if (*choice == "none") {
    return false;
  }
  if (choice->is_object() && choice->value("type", Json()) == "allowed_tools") {
    ReadAllowedTools(fields, *choice, offered);
  } else if (choice->is_object()) {
    ReadNamedChoice(fields, *choice, offered);
  } else if (*choice != "required") {
    fields.FailField("tool_choice",
                     fmt::format("must be \"none\", \"auto\", \"required\" or an object that names "
                                 "a function, got {}.",
                                 choice->is_string() ? DumpJson(*choice).substr(0, 40)
                                                     : std::string(KindOf(*choice))));
  } else if (offered.tools.empty()) {
    fields.FailField("tool_choice", "is \"required\", but `tools` offers no function.");
  } else {
    offered.choice.must_call = true;
  }
  return true;
}

}  // namespace

Result<OfferedTools> ReadTools(FieldReader& fields) {
  OfferedTools offered;
  if (const Json* list = fields.Array("tools")) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (auto tool = ReadTool(fields, fmt::format("tools[{}]", i), (*list)[i])) {
        offered.tools.push_back(std::move(*tool));
      }
    }
  }
  const bool shown = ReadChoice(fields, offered);
  offered.choice.one_call = !fields.Bool("parallel_tool_calls").value_or(true);
  if (fields.error()) {
    return Fail(*fields.error());
  }
  if (!shown) {
    offered.tools.clear();
  }
  return offered;
}

}  // namespace api
