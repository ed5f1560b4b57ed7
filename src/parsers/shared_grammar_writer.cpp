#include "parsers/shared_grammar_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace parsers {
namespace {

std::string Quoted(std::string_view text) { return DumpJson(Json(std::string(text))); }

void Append(std::string_view part, std::string_view separator, std::string& expression) {
  if (!expression.empty()) {
    expression += separator;
  }
  expression += part;
}

}  // namespace

bool GrammarWriter::HasToken(std::string_view text) const {
  return std::ranges::find(rules_.special_tokens, text, &SpecialToken::text) !=
         rules_.special_tokens.end();
}

std::pair<std::size_t, const SpecialToken*> GrammarWriter::FirstToken(std::string_view text) const {
  std::pair<std::size_t, const SpecialToken*> first{std::string_view::npos, nullptr};
  for (const SpecialToken& token : rules_.special_tokens) {
    const std::size_t at = token.text.empty() ? std::string_view::npos : text.find(token.text);
    const bool longer = first.second != nullptr && at == first.first &&
                        token.text.size() > first.second->text.size();
    if (at < first.first || (longer && at != std::string_view::npos)) {
      first = {at, &token};
    }
  }
  return first;
}

std::string GrammarWriter::Text(std::string_view text) const {
  std::string expression;
  while (!text.empty()) {
    const auto [at, token] = FirstToken(text);
    const std::string_view plain = text.substr(0, at);
    if (!plain.empty()) {
      Append(Quoted(plain), " ", expression);
    }
    if (token == nullptr) {
      break;
    }
    Append(fmt::format("<[{}]>", token->id), " ", expression);
    text.remove_prefix(at + token->text.size());
  }
  return expression.empty() ? "\"\"" : expression;
}

std::string GrammarWriter::CallBegin(std::string_view text) {
  return waking_ ? Rule(Quoted(prefix_ + std::string(text)), "[lazy]") : Text(text);
}

std::string GrammarWriter::JsonValue(Json schema, bool lenient) {
  // A space at most between two parts: a small model that may write more goes on with it for ever.
  // A oneOf is an anyOf here: that exactly one holds cannot be seen while writing.
  schema["x-guidance"] = {{"whitespace_flexible", true},
                          {"whitespace_pattern", "[ ]?"},
                          {"coerce_one_of", true},
                          {"lenient", lenient}};
  return "%json " + DumpJson(schema);
}

std::string GrammarWriter::Until(std::string_view closer) {
  const std::string with_token = TextWithToken(closer);
  return with_token.empty() ? Rule(fmt::format("{} {}", AnyText(), Quoted(closer)), "[lazy]")
                            : with_token;
}

std::string GrammarWriter::TextWith(std::string_view trigger) {
  const std::string with_token = TextWithToken(trigger);
  return with_token.empty()
             ? Rule(fmt::format(R"(/((?s:.*)[^`"'])?/ {})", Quoted(trigger)), "[lazy]")
             : with_token;
}

// The text before a special token needs not be lazy: nothing else is that token.
std::string GrammarWriter::TextWithToken(std::string_view text) {
  const auto [at, token] = FirstToken(text);
  if (token == nullptr) {
    return "";
  }
  std::string before = AnyText();
  if (at > 0) {
    const std::string ends_so = fmt::format("{} {}", before, Quoted(text.substr(0, at)));
    before = fmt::format("TEXT{}", rules_written_.size());
    NamedRule(before, ends_so);
  }
  return fmt::format("{} {}", before, Text(text.substr(at)));
}

std::string GrammarWriter::AnyText() {
  NamedRule("ANY_TEXT", "/(?s:.*)/");
  return "ANY_TEXT";
}

std::string GrammarWriter::AnyTokenBut(std::string_view text) const {
  std::string ids;
  for (const SpecialToken& token : rules_.special_tokens) {
    if (text.find(token.text) == std::string_view::npos) {
      Append(std::to_string(token.id), ",", ids);
    }
  }
  return ids.empty() ? ids : fmt::format("<[{}]>", ids);
}

std::string GrammarWriter::Fields(const std::vector<Field>& fields, std::string_view separator) {
  // From the last to the first: what may follow when one has been written, and when none has.
  std::string behind_one = "\"\"";
  std::string behind_none = "\"\"";
  for (auto field = fields.rbegin(); field != fields.rend(); ++field) {
    const std::string value = Rule(field->expression);
    const std::string next =
        separator.empty() ? value : fmt::format("{} {}", Text(separator), value);
    const auto after = [&](const std::string& first, const std::string& skipped) {
      return field->required ? fmt::format("{} {}", first, behind_one)
                             : fmt::format("{} {} | {}", first, behind_one, skipped);
    };
    behind_none = Rule(after(value, behind_none));
    behind_one = Rule(after(next, behind_one));
  }
  return behind_none;
}

std::string GrammarWriter::Rule(const std::string& expression, std::string_view attributes) {
  const std::string name = fmt::format("r{}", rules_written_.size());
  rules_written_.emplace_back(name + std::string(attributes), expression);
  return name;
}

bool GrammarWriter::NamedRule(const std::string& name, const std::string& expression) {
  if (std::ranges::any_of(rules_written_, [&](const auto& rule) { return rule.first == name; })) {
    return false;
  }
  rules_written_.emplace_back(name, expression);
  return true;
}

std::string GrammarWriter::Grammar(const std::string& start) const {
  std::string grammar = fmt::format("start: {}\n", start);
  for (const auto& [head, expression] : rules_written_) {
    grammar += fmt::format("{}: {}\n", head, expression);
  }
  return grammar;
}

}  // namespace parsers
