#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/parser.h"

namespace parsers {

// Writes a grammar in llguidance's Lark. Expressions are strings; what they need besides is kept as
// rules.
class GrammarWriter {
 public:
  explicit GrammarWriter(const ReplyRules& rules) : rules_(rules) {}

  [[nodiscard]] const ReplyRules& rules() const { return rules_; }
  [[nodiscard]] bool HasToken(std::string_view text) const;

  // Exactly `text`; the special tokens in it as tokens.
  [[nodiscard]] std::string Text(std::string_view text) const;
  // As Text, for what begins a call: without a trigger this is what tells it from other text.
  [[nodiscard]] std::string CallBegin(std::string_view text);
  // A JSON value valid to `schema`. `lenient`: keywords that cannot be had are left out.
  [[nodiscard]] static std::string JsonValue(Json schema, bool lenient);
  // Any text up to and including `closer`.
  [[nodiscard]] std::string Until(std::string_view closer);
  // Any text up to and including `trigger`, which does not count behind a quotation mark: there it
  // is talked about.
  [[nodiscard]] std::string TextWith(std::string_view trigger);
  // Any text of ordinary tokens.
  [[nodiscard]] std::string AnyText();
  // One special token, but none that is in `text`; empty when there is no other.
  [[nodiscard]] std::string AnyTokenBut(std::string_view text) const;

  // Fields in this order, `separator` between them; those not required may be left out.
  struct Field {
    std::string expression;
    bool required = false;
  };
  [[nodiscard]] std::string Fields(const std::vector<Field>& fields, std::string_view separator);

  // Makes `expression` a rule; `attributes` such as "[lazy]". Returns its name.
  [[nodiscard]] std::string Rule(const std::string& expression, std::string_view attributes = {});
  // The same under a name, once: false when it was there.
  bool NamedRule(const std::string& name, const std::string& expression);

  // From now on CallBegin is what wakes the grammar, behind `prefix`.
  void SetWaking(bool waking, std::string_view prefix) {
    waking_ = waking;
    prefix_ = prefix;
  }

  // The whole grammar, which begins with `start`.
  [[nodiscard]] std::string Grammar(const std::string& start) const;

 private:
  // Any text up to and including `text`, which has a special token; empty when it has none.
  [[nodiscard]] std::string TextWithToken(std::string_view text);
  // The first special token in `text`: where, and which; {npos, nullptr} when there is none.
  [[nodiscard]] std::pair<std::size_t, const SpecialToken*> FirstToken(std::string_view text) const;

  const ReplyRules& rules_;
  std::vector<std::pair<std::string, std::string>> rules_written_;  // head, expression
  bool waking_ = false;
  std::string prefix_;
};

}  // namespace parsers
