#include "chat/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <vector>

namespace chat {
namespace {

// One rule: its expression in Lark with {NAME} for other rules' names.
struct Part {
  bool is_name = false;
  std::string text;
};
struct GbnfRule {
  std::vector<Part> parts;
  std::set<std::string> uses;
};
using Rules = std::map<std::string, GbnfRule>;

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

class GbnfReader {
 public:
  explicit GbnfReader(std::string_view text) : text_(text) {}

  Result<Rules> Read() {
    Rules rules;
    SkipBlank(/*lines=*/true);
    while (at_ < text_.size()) {
      const std::string name = Name();
      SkipBlank(/*lines=*/false);
      if (name.empty() || !Accept("::=")) {
        return Bad("expected a rule, NAME ::= ...");
      }
      GbnfRule rule;
      if (const Result<void> read = Alternatives(rule, /*nested=*/false); !read) {
        return Fail(read.error());
      }
      rules[name] = std::move(rule);
      SkipBlank(/*lines=*/true);
    }
    if (!rules.contains("root")) {
      return Fail(ErrorCode::kInvalidRequest, "must have a rule named root.");
    }
    for (const auto& [name, rule] : rules) {
      for (const std::string& used : rule.uses) {
        if (!rules.contains(used)) {
          return Fail(ErrorCode::kInvalidRequest,
                      fmt::format("uses the rule {}, which it does not have.", used));
        }
      }
    }
    return rules;
  }

 private:
  tl::unexpected<Error> Bad(std::string_view what) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    return Fail(ErrorCode::kInvalidRequest, fmt::format("is not GBNF: {} in line {}.", what, line));
  }

  bool Accept(std::string_view literal) {
    if (!text_.substr(at_).starts_with(literal)) {
      return false;
    }
    at_ += literal.size();
    return true;
  }

  // White space and comments; with `lines` also beyond the line.
  void SkipBlank(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string Name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<void> Alternatives(GbnfRule& rule, bool nested) {
    if (++depth_ > 100) {
      return Bad("parentheses too deep");
    }
    bool any = false;
    while (true) {
      SkipBlank(nested);
      if (at_ >= text_.size() || text_[at_] == ')' || text_[at_] == '\n' || text_[at_] == '\r') {
        break;
      }
      if (Accept("|")) {
        rule.parts.push_back({.text = any ? " | " : "\"\" | "});
        SkipBlank(/*lines=*/true);
        any = false;
        continue;
      }
      if (const Result<void> read = Item(rule); !read) {
        return read;
      }
      any = true;
    }
    if (!any) {
      rule.parts.push_back({.text = "\"\""});
    }
    --depth_;
    return {};
  }

  Result<void> Item(GbnfRule& rule) {
    const char c = text_[at_];
    Result<void> read;
    if (c == '"') {
      read = Literal(rule);
    } else if (c == '[') {
      read = Class(rule);
    } else if (c == '.') {
      ++at_;
      rule.parts.push_back({.text = "/(?s:.)/"});
    } else if (c == '(') {
      ++at_;
      rule.parts.push_back({.text = "("});
      read = Alternatives(rule, /*nested=*/true);
      if (read && !Accept(")")) {
        return Bad("a parenthesis is not closed");
      }
      rule.parts.push_back({.text = ")"});
    } else if (const std::string name = Name(); !name.empty()) {
      rule.uses.insert(name);
      rule.parts.push_back({.is_name = true, .text = name});
    } else {
      return Bad(fmt::format("unexpected \"{}\"", c));
    }
    if (!read) {
      return read;
    }
    Repetition(rule);
    rule.parts.push_back({.text = " "});
    return {};
  }

  void Repetition(GbnfRule& rule) {
    if (at_ >= text_.size()) {
      return;
    }
    if (std::string_view("*+?").find(text_[at_]) != std::string_view::npos) {
      rule.parts.push_back({.text = std::string(1, text_[at_++])});
    } else if (text_[at_] == '{') {
      const std::size_t end = std::min(text_.find('}', at_), text_.size() - 1);
      rule.parts.push_back({.text = std::string(text_.substr(at_, end + 1 - at_))});
      at_ = end + 1;
    }
  }

  // The literal in Lark has the same escapes, but those of code points.
  Result<void> Literal(GbnfRule& rule) {
    std::string literal(1, text_[at_++]);
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        literal += Escape(/*in_class=*/false);
      } else if (text_[at_] == '\n') {
        literal += "\\n";
        ++at_;
      } else {
        literal += text_[at_++];
      }
    }
    if (at_ >= text_.size()) {
      return Bad("a string is not closed");
    }
    ++at_;
    rule.parts.push_back({.text = literal + '"'});
    return {};
  }

  Result<void> Class(GbnfRule& rule) {
    std::string regex = "/";
    regex += text_[at_++];
    while (at_ < text_.size() && text_[at_] != ']') {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        regex += Escape(/*in_class=*/true);
        continue;
      }
      // What Rust's classes give a meaning that GBNF's do not.
      if (c == '[' || c == '/' || c == '&' || c == '~') {
        regex += '\\';
      }
      if (c == '\n') {
        regex += "\\n";
      } else {
        regex += c;
      }
      ++at_;
    }
    if (at_ >= text_.size()) {
      return Bad("a character class is not closed");
    }
    ++at_;
    rule.parts.push_back({.text = regex + "]/"});
    return {};
  }

  // At a backslash.
  std::string Escape(bool in_class) {
    const char c = text_[at_ + 1];
    at_ += 2;
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0 && at_ + digits <= text_.size()) {
      const std::string hex(text_.substr(at_, digits));
      at_ += digits;
      return in_class ? fmt::format("\\x{{{}}}", hex) : fmt::format("\\u{:0>4}", hex);
    }
    if (std::string_view("nrt\\").find(c) != std::string_view::npos) {
      return {'\\', c};
    }
    if (in_class) {
      return {'\\', c};
    }
    return c == '"' ? "\\\"" : std::string(1, c);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

// Does `name` come back to itself?
bool IsRecursive(const Rules& rules, const std::string& name) {
  std::set<std::string> seen;
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    for (const std::string& used : rules.at(next).uses) {
      if (used == name) {
        return true;
      }
      if (seen.insert(used).second) {
        open.push_back(used);
      }
    }
  }
  return false;
}

// Can it be a terminal: neither it nor what it uses is recursive?
bool IsTerminal(const Rules& rules, const std::string& name) {
  std::set<std::string> seen = {name};
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    if (IsRecursive(rules, next)) {
      return false;
    }
    for (const std::string& used : rules.at(next).uses) {
      if (seen.insert(used).second) {
        open.push_back(used);
      }
    }
  }
  return true;
}

}  // namespace

bool IsGbnf(std::string_view text) { return text.find("::=") != std::string_view::npos; }

Result<std::string> LarkOfGbnf(std::string_view text) {
  const Result<Rules> rules = GbnfReader(text).Read();
  if (!rules) {
    return Fail(rules.error());
  }
  // Lark tells rules from terminals by their case: numbers keep names apart.
  std::map<std::string, std::string> names;
  for (const auto& [name, rule] : *rules) {
    names[name] = fmt::format("{}{}", IsTerminal(*rules, name) ? "GBNF_" : "gbnf_", names.size());
  }
  std::string lark = fmt::format("start: {}\n", names.at("root"));
  for (const auto& [name, rule] : *rules) {
    lark += fmt::format("{}: ", names.at(name));
    for (const Part& part : rule.parts) {
      lark += part.is_name ? names.at(part.text) : part.text;
    }
    lark += '\n';
  }
  return lark;
}

}  // namespace chat
