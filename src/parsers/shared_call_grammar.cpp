#include "parsers/shared_call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "base/json.h"
#include "parsers/shared_scanner.h"
#include "parsers/shared_typed_value.h"

namespace parsers {
namespace {

// A reply that must be calls could go on with them for ever.
constexpr int kMaxFurtherCalls = 15;

bool HasAnyOf(const Json& object, std::initializer_list<const char*> keys) {
  return std::ranges::any_of(keys, [&](const char* key) { return object.contains(key); });
}

// Objects that list properties and do not say whether there may be others have no others.
void CloseObjects(Json& schema) {
  if (!schema.is_object()) {
    return;
  }
  for (const char* holder : {"properties", "$defs", "definitions"}) {
    if (const auto found = schema.find(holder); found != schema.end() && found->is_object()) {
      for (auto& [name, part] : found->items()) {
        CloseObjects(part);
      }
    }
  }
  if (const auto items = schema.find("items"); items != schema.end()) {
    CloseObjects(*items);
  }
  if (schema.contains("properties") &&
      !HasAnyOf(schema, {"additionalProperties", "patternProperties", "unevaluatedProperties",
                         "anyOf", "oneOf", "$ref"})) {
    schema["additionalProperties"] = false;
  }
}

// The schema of one property, which may refer to the definitions of the whole.
Json WithDefinitions(const Json& part, const Json& whole) {
  Json schema = part.is_object() ? part : Json::object();
  for (const char* key : {"$defs", "definitions"}) {
    if (whole.contains(key) && !schema.contains(key)) {
      schema[key] = whole[key];
    }
  }
  return schema;
}

bool IsRequired(const Json& schema, const std::string& name) {
  const Json required = schema.value("required", Json::array());
  return required.is_array() && std::ranges::find(required, Json(name)) != required.end();
}

bool IsLenient(const GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return !grammar.rules().must_call && !tool.strict;
}

// What an enum or a const allows, or nothing.
std::vector<Json> Choices(const Json& schema) {
  if (const auto value = schema.find("const"); value != schema.end()) {
    return {*value};
  }
  const auto list = schema.find("enum");
  return list != schema.end() && list->is_array() ? std::vector<Json>(list->begin(), list->end())
                                                  : std::vector<Json>();
}

std::string Alternatives(const std::vector<std::string>& expressions) {
  std::string joined;
  for (const std::string& expression : expressions) {
    joined += (joined.empty() ? "(" : " | ") + expression;
  }
  return joined + ")";
}

// Calls FUNCTION(name, schema) for each property of the arguments.
template <class Function>
void ForEachProperty(const Json& schema, const Function& function) {
  if (const auto found = schema.find("properties"); found != schema.end() && found->is_object()) {
    for (const auto& [name, unused] : found->items()) {
      const Json* property = PropertySchema(schema, name);
      function(name, property == nullptr ? Json::object() : *property);
    }
  }
}

// Values that are texts between quotes, and otherwise as in JSON.
class BraceGrammar {
 public:
  BraceGrammar(GrammarWriter& grammar, std::string_view quote, const Json& whole, bool lenient)
      : grammar_(grammar), quote_(quote), whole_(whole), lenient_(lenient) {}

  std::string Object(const Json& schema, int depth) {
    std::vector<std::pair<std::string, Json>> properties;
    ForEachProperty(schema, [&](const std::string& name, const Json& property) {
      properties.emplace_back(name, property);
    });
    std::ranges::sort(properties, {}, [](const auto& property) { return property.first; });
    std::vector<GrammarWriter::Field> fields;
    for (const auto& [name, property] : properties) {
      fields.push_back({.expression = grammar_.Text(name + ":") + " " + Value(property, depth + 1),
                        .required = IsRequired(schema, name)});
    }
    return fmt::format(R"("{{" {} "}}")", grammar_.Fields(fields, ","));
  }

 private:
  std::string Value(const Json& schema, int depth) {
    constexpr int kMaxDepth = 8;
    if (const std::vector<Json> choices = Choices(schema); !choices.empty()) {
      std::vector<std::string> expressions;
      for (const Json& choice : choices) {
        expressions.push_back(choice.is_string() ? Quoted(choice.get<std::string>())
                                                 : grammar_.Text(DumpJson(choice)));
      }
      return Alternatives(expressions);
    }
    const Json type = schema.value("type", Json());
    if (type == "string") {
      return AnyQuoted();
    }
    if (type == "array" && depth < kMaxDepth) {
      const std::string item =
          grammar_.Rule(Value(schema.value("items", Json::object()), depth + 1));
      return fmt::format(R"("[" ({0} ("," {0})*)? "]")", item);
    }
    if (type == "object" && schema.contains("properties") && depth < kMaxDepth) {
      return Object(schema, depth);
    }
    if (type == "integer" || type == "number" || type == "boolean" || type == "null") {
      return GrammarWriter::JsonValue(WithDefinitions(schema, whole_), lenient_);
    }
    return AnyValue();
  }

  std::string Quoted(const std::string& text) {
    return grammar_.Text(std::string(quote_) + text + std::string(quote_));
  }
  std::string AnyQuoted() { return grammar_.Text(quote_) + " " + grammar_.Until(quote_); }

  std::string AnyValue() {
    grammar_.NamedRule("BRACE_SCALAR", R"(/-?[0-9]+(\.[0-9]+)?|true|false|null/)");
    grammar_.NamedRule("BRACE_KEY", "/[A-Za-z_][A-Za-z0-9_]*/");
    if (!any_written_) {
      any_written_ = true;
      const std::string quoted = AnyQuoted();
      grammar_.NamedRule(
          "brace_any", quoted +
                           " | BRACE_SCALAR | \"[\" (brace_any (\",\" brace_any)*)? \"]\" | \"{\" "
                           "(BRACE_KEY \":\" brace_any (\",\" BRACE_KEY \":\" brace_any)*)? \"}\"");
    }
    return "brace_any";
  }

  GrammarWriter& grammar_;
  std::string_view quote_;
  const Json& whole_;
  bool lenient_;
  bool any_written_ = false;
};

bool EndsWithTag(std::string_view text, std::string_view tag) {
  while (!text.empty() && IsSpace(text.back())) {
    text.remove_suffix(1);
  }
  return text.ends_with(tag);
}

// The reasoning before everything else, where there may be some; else empty.
std::string Reasoning(GrammarWriter& grammar, std::span<const ReasoningTags> all_tags) {
  constexpr std::string_view kLineBreaks = R"( /\n{0,2}/)";
  const ReplyRules& rules = grammar.rules();
  std::string optional;
  for (const ReasoningTags& tags : all_tags) {
    if (EndsWithTag(rules.prompt_tail, tags.opener)) {
      return grammar.Until(tags.closer).append(kLineBreaks);
    }
    if (EndsWithTag(rules.prompt_tail, tags.closer)) {
      return "";
    }
    if (grammar.HasToken(tags.opener) ||
        rules.chat_template.find(tags.opener) != std::string_view::npos) {
      optional += (optional.empty() ? "(" : " | ") + grammar.Text(tags.opener) + " " +
                  grammar.Until(tags.closer).append(kLineBreaks);
    }
  }
  return optional.empty() ? "" : optional + ")?";
}

// One call of any tool, as a rule.
std::string AnyCall(GrammarWriter& grammar, const CallForm& form) {
  std::vector<std::string> calls;
  for (const chat::ToolSpec& tool : grammar.rules().tools) {
    calls.push_back(grammar.Rule(form.call(grammar, tool)));
  }
  return grammar.Rule(Alternatives(calls));
}

// The calls, without what `opener` they begin with.
std::string Calls(GrammarWriter& grammar, const CallForm& form, bool waking) {
  grammar.SetWaking(waking, form.opener);
  std::string calls = AnyCall(grammar, form);
  grammar.SetWaking(false, "");
  if (!grammar.rules().one_call && !form.one_only) {
    const std::string next = waking ? AnyCall(grammar, form) : calls;
    calls += fmt::format(" ({} {}){{0,{}}}", grammar.Text(form.separator), next, kMaxFurtherCalls);
  }
  return form.closer.empty() ? calls : calls + " " + grammar.Text(form.closer);
}

// Text with calls in it, from the trigger on well-formed.
std::string TextWithCalls(GrammarWriter& grammar, const CallForm& form) {
  const std::string any = grammar.AnyText();
  const std::string other = grammar.AnyTokenBut(form.trigger);
  const std::string free = other.empty() ? "" : any + " " + other;
  const std::string between = free.empty() ? "" : fmt::format("({})* ", free);
  if (form.trigger.empty()) {
    return fmt::format("({} | {}{})", grammar.Rule(Calls(grammar, form, /*waking=*/true)), between,
                       any);
  }
  const std::string rest = grammar.Text(form.opener.substr(form.trigger.size()));
  const std::string calls = grammar.Rule(fmt::format("{} {} {}", grammar.TextWith(form.trigger),
                                                     rest, Calls(grammar, form, /*waking=*/false)));
  if (grammar.rules().one_call) {
    return fmt::format("{}({} | {})", between, calls, any);
  }
  return free.empty() ? fmt::format("{}* {}", calls, any)
                      : fmt::format("({} | {})* {}", free, calls, any);
}

// What stands behind the reasoning.
std::string Message(GrammarWriter& grammar, const CallForm& form) {
  const ReplyRules& rules = grammar.rules();
  if (rules.tools.empty()) {
    return rules.answer.empty() ? grammar.AnyText() : rules.answer;
  }
  if (!rules.must_call && rules.answer.empty()) {
    return TextWithCalls(grammar, form);
  }
  const std::string calls =
      fmt::format("{} {}", grammar.Text(form.opener), Calls(grammar, form, /*waking=*/false));
  return rules.must_call ? calls : fmt::format("({} | {})", calls, rules.answer);
}

}  // namespace

Json ArgumentsSchema(const chat::ToolSpec& tool) {
  Json schema = tool.parameters.is_object() ? tool.parameters : Json::object();
  if (!schema.contains("type")) {
    schema["type"] = "object";
  }
  if (!HasAnyOf(schema, {"properties", "$ref", "anyOf", "oneOf", "allOf", "additionalProperties",
                         "patternProperties"})) {
    schema["properties"] = Json::object();
  }
  // What allOf joins must not be closed in its parts.
  if (DumpJson(schema).find("\"allOf\"") == std::string::npos) {
    CloseObjects(schema);
  }
  return schema;
}

std::string JsonArguments(const GrammarWriter& grammar, const chat::ToolSpec& tool) {
  return GrammarWriter::JsonValue(ArgumentsSchema(tool), IsLenient(grammar, tool));
}

std::string JsonCall(GrammarWriter& grammar, const chat::ToolSpec& tool, std::string_view key) {
  const std::string begin =
      "{\"name\": " + DumpJson(Json(tool.name)) + ", \"" + std::string(key) + "\": ";
  return grammar.CallBegin(begin) + " " + JsonArguments(grammar, tool) + " \"}\"";
}

std::string JsonCallInTags(GrammarWriter& grammar, const chat::ToolSpec& tool,
                           std::string_view closer) {
  return fmt::format(R"("\n" {} "\n" {})", JsonCall(grammar, tool), grammar.Text(closer));
}

std::string TaggedCall(GrammarWriter& grammar, const chat::ToolSpec& tool,
                       const CallTagTexts& tags) {
  const Json schema = ArgumentsSchema(tool);
  std::vector<GrammarWriter::Field> fields;
  ForEachProperty(schema, [&](const std::string& name, const Json& property) {
    const std::vector<Json> choices = Choices(property);
    const bool is_text = MayBeString(property);
    const std::string attribute = !tags.attributes ? ""
                                  : is_text        ? "\" string=\"true\""
                                                   : "\" string=\"false\"";
    const std::string end =
        grammar.Text(std::string(tags.before_closer) + std::string(tags.value_closer));
    std::string value;
    if (is_text && !choices.empty()) {
      std::vector<std::string> texts;
      for (const Json& choice : choices) {
        texts.push_back(
            grammar.Text(choice.is_string() ? choice.get<std::string>() : DumpJson(choice)));
      }
      value = Alternatives(texts) + " " + end;
    } else if (is_text) {
      value = grammar.Until(tags.value_closer);
    } else {
      value =
          GrammarWriter::JsonValue(WithDefinitions(property, schema), IsLenient(grammar, tool)) +
          " " + end;
    }
    const std::string opener =
        std::string(tags.parameter_opener) + name + attribute + std::string(tags.parameter_closer);
    const std::string after =
        tags.after_closer.empty() ? "" : " " + grammar.Text(tags.after_closer);
    fields.push_back({.expression = grammar.Text(opener) + " " + value + after,
                      .required = IsRequired(schema, name)});
  });
  const std::string name =
      std::string(tags.name_opener) + tool.name + std::string(tags.name_closer);
  const std::string end = tags.call_closer.empty() ? "" : " " + grammar.Text(tags.call_closer);
  return grammar.Text(name) + " " + grammar.Fields(fields, "") + end;
}

std::string PythonCallText(GrammarWriter& grammar, const chat::ToolSpec& tool) {
  const Json schema = ArgumentsSchema(tool);
  std::vector<GrammarWriter::Field> fields;
  ForEachProperty(schema, [&](const std::string& name, const Json& property) {
    const std::string value =
        property.value("type", Json()) == "boolean"
            ? R"(("True" | "False"))"
            : GrammarWriter::JsonValue(WithDefinitions(property, schema), IsLenient(grammar, tool));
    fields.push_back({.expression = grammar.Text(name + "=") + " " + value,
                      .required = IsRequired(schema, name)});
  });
  return grammar.CallBegin(tool.name + "(") + " " + grammar.Fields(fields, ", ") + " \")\"";
}

std::string BraceCall(GrammarWriter& grammar, const chat::ToolSpec& tool, std::string_view quote) {
  const Json schema = ArgumentsSchema(tool);
  return grammar.Text(tool.name) + " " +
         BraceGrammar(grammar, quote, schema, IsLenient(grammar, tool)).Object(schema, 0);
}

CallForm TaggedJsonForm() {
  return {.trigger = "<tool_call>",
          .opener = "<tool_call>",
          .separator = "\n<tool_call>",
          .call = [](GrammarWriter& grammar, const chat::ToolSpec& tool) {
            return JsonCallInTags(grammar, tool, "</tool_call>");
          }};
}

std::string JsonExpression(Json schema) {
  return GrammarWriter::JsonValue(std::move(schema), /*lenient=*/false);
}

std::string RegexExpression(std::string_view regex) {
  std::string escaped;
  for (std::size_t i = 0; i < regex.size(); ++i) {
    if (regex[i] == '\\' && i + 1 < regex.size()) {
      escaped += regex[i];
      escaped += regex[++i];
    } else if (regex[i] == '/') {
      escaped += "\\/";
    } else if (regex[i] == '\n') {
      escaped += "\\n";
    } else {
      escaped += regex[i];
    }
  }
  return fmt::format("/{}/", escaped);
}

std::string ChoiceExpression(const std::vector<std::string>& choices) {
  std::vector<std::string> quoted;
  for (const std::string& choice : choices) {
    quoted.push_back(DumpJson(Json(choice)));
  }
  return Alternatives(quoted);
}

std::optional<std::string> ReplyGrammar(const ParserFormat& format, const ReplyRules& given) {
  ReplyRules rules = given;
  GrammarWriter grammar(rules);
  const CallForm form = format.calls(grammar);
  if (form.call == nullptr) {
    if (rules.answer.empty() || rules.must_call) {
      return std::nullopt;
    }
    rules.tools.clear();
  }
  if (form.message != nullptr) {
    const std::string calls =
        rules.tools.empty() ? "" : grammar.Rule(Calls(grammar, form, /*waking=*/false));
    const std::string answer = rules.answer.empty() ? grammar.AnyText() : rules.answer;
    return grammar.Grammar(form.message(grammar, calls, answer));
  }
  const std::string reasoning = Reasoning(grammar, format.reasoning);
  const std::string message = Message(grammar, form);
  return grammar.Grammar(reasoning.empty() ? message : fmt::format("{} {}", reasoning, message));
}

}  // namespace parsers
