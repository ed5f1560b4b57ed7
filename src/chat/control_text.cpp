#include "chat/control_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chat {
namespace {

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

bool IsBlank(std::string_view text) { return std::all_of(text.begin(), text.end(), &IsSpace); }

// U+FDD0 + n in UTF-8: noncharacters, never used for text.
std::string Nonchar(int n) { return std::string("\xEF\xB7") + static_cast<char>(0x90 + n); }

constexpr int kNonchars = 32;

class Marker {
 public:
  Marker(const ControlSets& sets, MarkedVariables& marks) : sets_(sets), marks_(marks) {}

  void MarkAll(Json& variables, const std::set<std::string>& own_names) {
    for (auto& [name, value] : variables.items()) {
      if (name == "messages") {
        MarkMessages(value);
      } else if (!own_names.contains(name)) {
        Mark(value, sets_.all);
      }
    }
  }

 private:
  void MarkMessages(Json& messages) {
    for (Json& message : messages) {
      const bool assistant = message.value("role", "") == "assistant";
      for (auto& [name, value] : message.items()) {
        if (name != "role") {
          Mark(value, assistant ? sets_.special : sets_.all);
        }
      }
    }
  }

  // The keys too: a template prints them with the rest of an object.
  void Mark(Json& value, const ControlTokens& tokens) {
    if (value.is_string()) {
      MarkString(value.get_ref<std::string&>(), tokens);
    } else if (value.is_array()) {
      for (Json& item : value) {
        Mark(item, tokens);
      }
    } else if (value.is_object()) {
      Json::object_t marked;
      for (auto& [key, item] : value.items()) {
        std::string name = key;
        MarkString(name, tokens);
        Mark(item, tokens);
        marked.emplace_back(std::move(name), std::move(item));
      }
      value.get_ref<Json::object_t&>().swap(marked);
    }
  }

  void MarkString(std::string& text, const ControlTokens& tokens) {
    std::optional<Tokenizer::Span> found = tokens.Find(text, 0);
    if (!found.has_value()) {
      return;
    }
    std::string marked;
    std::size_t done = 0;
    for (; found.has_value(); found = tokens.Find(text, done)) {
      std::string token = text.substr(found->begin, found->end - found->begin);
      marked += text.substr(done, found->begin - done) + marks_.open + token + marks_.close;
      marks_.tokens.insert(std::move(token));
      done = found->end;
    }
    text = marked + text.substr(done);
  }

  const ControlSets& sets_;
  MarkedVariables& marks_;
};

// Two renderings side by side.
class Alignment {
 public:
  Alignment(std::string_view text, std::string_view marked_text, const MarkedVariables& marks)
      : text_(text), marked_(marked_text), marks_(marks) {}

  std::optional<std::vector<Tokenizer::Span>> Spans() {
    while (in_marked_ < marked_.size()) {
      if (TakeMark(marks_.open)) {
        begin_ = in_text_;
      } else if (TakeMark(marks_.close)) {
        Close();
      } else if (in_text_ < text_.size() && text_[in_text_] == marked_[in_marked_]) {
        ++in_text_;
        ++in_marked_;
      } else if (IsSpace(marked_[in_marked_])) {
        ++in_marked_;  // trimmed in the plain rendering, where no mark stood before it
      } else {
        return std::nullopt;
      }
    }
    if (in_text_ != text_.size()) {
      return std::nullopt;
    }
    return std::move(spans_);
  }

 private:
  // A mark as such, or as tojson(ensure_ascii=True) writes it.
  bool TakeMark(const std::string& mark) {
    const std::string_view rest = marked_.substr(in_marked_);
    const char last = "0123456789abcdef"[static_cast<unsigned char>(mark.back()) & 0xFU];
    const bool second_row = static_cast<unsigned char>(mark.back()) >= 0xA0U;
    const std::string escaped = std::string("\\ufd") + (second_row ? 'e' : 'd') + last;
    for (const std::string& form : {mark, escaped}) {
      if (rest.starts_with(form)) {
        in_marked_ += form.size();
        return true;
      }
    }
    return false;
  }

  void Close() {
    if (begin_.has_value() && *begin_ < in_text_) {
      spans_.push_back({.begin = *begin_, .end = in_text_});
    }
    begin_.reset();
  }

  std::string_view text_;
  std::string_view marked_;
  const MarkedVariables& marks_;
  std::size_t in_text_ = 0;
  std::size_t in_marked_ = 0;
  std::optional<std::size_t> begin_;
  std::vector<Tokenizer::Span> spans_;
};

}  // namespace

ControlTokens::ControlTokens(const std::vector<std::string_view>& tokens) : lengths_(256) {
  for (const std::string_view token : tokens) {
    if (!token.empty() && tokens_.emplace(token).second) {
      lengths_[static_cast<unsigned char>(token.front())].push_back(token.size());
    }
  }
  for (std::vector<std::size_t>& lengths : lengths_) {
    std::sort(lengths.rbegin(), lengths.rend());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

std::optional<Tokenizer::Span> ControlTokens::Find(std::string_view text, std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (const std::size_t length = LengthAt(text, at); length > 0) {
      return Tokenizer::Span{.begin = at, .end = at + length};
    }
  }
  return std::nullopt;
}

std::size_t ControlTokens::LengthAt(std::string_view text, std::size_t at) const {
  for (const std::size_t length : lengths_[static_cast<unsigned char>(text[at])]) {
    if (at + length <= text.size() && tokens_.contains(std::string(text.substr(at, length)))) {
      return length;
    }
  }
  return 0;
}

ControlSets ControlSetsOf(const Tokenizer& tokenizer, std::string_view template_source) {
  std::vector<std::string_view> all;
  std::vector<std::string_view> special;
  for (const Tokenizer::AddedToken& token : tokenizer.added_tokens()) {
    if (IsBlank(token.text)) {
      continue;
    }
    if (token.special) {
      special.push_back(token.text);
      all.push_back(token.text);
    } else if (template_source.find(token.text) != std::string_view::npos) {
      all.push_back(token.text);
    }
  }
  return {.all = ControlTokens(all), .special = ControlTokens(special)};
}

MarkedVariables MarkClientText(const Json& variables, const ControlSets& sets) {
  MarkedVariables marks{.variables = variables, .open = {}, .close = {}, .tokens = {}};
  const std::string everything = DumpJson(variables);
  std::vector<std::string> unused;
  for (int n = 0; n < kNonchars && unused.size() < 2; ++n) {
    if (everything.find(Nonchar(n)) == std::string::npos) {
      unused.push_back(Nonchar(n));
    }
  }
  if (unused.size() == 2) {
    marks.open = unused[0];
    marks.close = unused[1];
  }
  Marker(sets, marks)
      .MarkAll(marks.variables, {"bos_token", "eos_token", "unk_token", "pad_token"});
  return marks;
}

std::optional<std::vector<Tokenizer::Span>> SpansBetweenMarks(std::string_view text,
                                                              std::string_view marked_text,
                                                              const MarkedVariables& marks) {
  if (marks.open.empty()) {
    return std::nullopt;
  }
  return Alignment(text, marked_text, marks).Spans();
}

std::vector<Tokenizer::Span> SpansOfTokens(std::string_view text,
                                           const std::set<std::string>& tokens) {
  const ControlTokens finder({tokens.begin(), tokens.end()});
  std::vector<Tokenizer::Span> spans;
  std::size_t from = 0;
  while (const std::optional<Tokenizer::Span> found = finder.Find(text, from)) {
    spans.push_back(*found);
    from = found->end;
  }
  return spans;
}

}  // namespace chat
