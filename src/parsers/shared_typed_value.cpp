#include "parsers/shared_typed_value.h"

#include <algorithm>
#include <array>
#include <set>

#include "parsers/shared_scanner.h"

namespace parsers {
namespace {

using Types = std::set<std::string>;

std::string TypeName(const Json& value) {
  if (value.is_string()) {
    return "string";
  }
  if (value.is_boolean()) {
    return "boolean";
  }
  if (value.is_null()) {
    return "null";
  }
  if (value.is_number()) {
    return "number";
  }
  return value.is_array() ? "array" : "object";
}

// The types that a schema names; empty: it names none.
void AddTypes(const Json& schema, Types& types) {
  if (!schema.is_object()) {
    return;
  }
  const Json type = schema.value("type", Json());
  for (const Json& name : type.is_array() ? type : Json::array({type})) {
    if (name.is_string()) {
      types.insert(name == "integer" ? "number" : name.get<std::string>());
    }
  }
  for (const char* list : {"anyOf", "oneOf", "allOf"}) {
    for (const Json& part : schema.value(list, Json::array())) {
      AddTypes(part, types);
    }
  }
  if (types.empty()) {
    for (const Json& value : schema.value("enum", Json::array())) {
      types.insert(TypeName(value));
    }
    if (const auto value = schema.find("const"); value != schema.end()) {
      types.insert(TypeName(*value));
    }
    if (schema.contains("properties")) {
      types.insert("object");
    } else if (schema.contains("items")) {
      types.insert("array");
    }
  }
  if (schema.value("nullable", Json()) == true) {
    types.insert("null");
  }
}

// JSON, or one of Python's words for it.
Result<Json> ParseLoosely(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPythons = {
      {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
  for (const auto& [python, json] : kPythons) {
    if (text == python) {
      return ParseJson(json);
    }
  }
  return ParseJson(text);
}

}  // namespace

const Json* PropertySchema(const Json& parameters, std::string_view name) {
  if (!parameters.is_object()) {
    return nullptr;
  }
  const auto properties = parameters.find("properties");
  if (properties == parameters.end() || !properties->is_object()) {
    return nullptr;
  }
  const auto property = properties->find(std::string(name));
  if (property == properties->end()) {
    return nullptr;
  }
  // {"$ref": "#/$defs/X"}
  constexpr std::string_view kDefs = "#/$defs/";
  const Json ref = property->is_object() ? property->value("$ref", Json()) : Json();
  if (ref.is_string() && ref.get_ref<const std::string&>().starts_with(kDefs)) {
    const auto defs = parameters.find("$defs");
    if (defs != parameters.end() && defs->is_object()) {
      const auto found = defs->find(ref.get<std::string>().substr(kDefs.size()));
      return found == defs->end() ? nullptr : &*found;
    }
  }
  return &*property;
}

bool IsStringOnly(const Json* schema) {
  if (schema == nullptr) {
    return true;
  }
  Types types;
  AddTypes(*schema, types);
  return types == Types{"string"};
}

bool MayBeString(const Json& schema) {
  Types types;
  AddTypes(schema, types);
  return types.empty() || types.contains("string");
}

std::string TypedJson(std::string_view text, const Json* schema) {
  Types types;
  if (schema != nullptr) {
    AddTypes(*schema, types);
  }
  const Json as_string = std::string(text);
  const Result<Json> value = ParseLoosely(Trimmed(text));
  if (!value || value->is_string()) {
    // A quoted string where none but strings could be meant keeps its quotes.
    return DumpJson(as_string);
  }
  const std::string type = TypeName(*value);
  const bool fits = types.empty()
                        ? value->is_structured()
                        : types.contains(type) && (!types.contains("string") || type == "null");
  return DumpJson(fits ? *value : as_string);
}

}  // namespace parsers
