#include "parsers/shared_python_call.h"

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "parsers/shared_json_scan.h"

namespace parsers {
namespace {

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

void AppendUtf8(std::uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// Reads Python's literals. Every function gives nothing, or false, at the first thing that is none.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<PythonCall>> Calls() {
    std::vector<PythonCall> calls;
    const bool is_list = Accept('[');
    while (true) {
      std::optional<PythonCall> call = Call();
      if (!call) {
        return std::nullopt;
      }
      calls.push_back(std::move(*call));
      if (!is_list || !Accept(',')) {
        break;
      }
    }
    if (is_list && !Accept(']')) {
      return std::nullopt;
    }
    SkipSpace();
    return at_ == text_.size() ? std::optional(std::move(calls)) : std::nullopt;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) {
      ++at_;
    }
  }

  bool Accept(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) {
      return false;
    }
    ++at_;
    return true;
  }

  std::string Name() {
    SkipSpace();
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<PythonCall> Call() {
    PythonCall call{.name = Name()};
    if (call.name.empty() || !Accept('(')) {
      return std::nullopt;
    }
    while (!Accept(')')) {
      const std::string key = Name();
      if (key.empty() || !Accept('=')) {
        return std::nullopt;
      }
      std::optional<Json> value = Value(0);
      if (!value) {
        return std::nullopt;
      }
      call.arguments[key] = std::move(*value);
      if (!Accept(',') && !(at_ < text_.size() && text_[at_] == ')')) {
        return std::nullopt;
      }
    }
    return call;
  }

  std::optional<Json> Value(int depth) {
    SkipSpace();
    if (at_ >= text_.size() || depth > kMaxJsonDepth) {
      return std::nullopt;
    }
    switch (text_[at_]) {
      case '\'':
      case '"':
        return String();
      case '[':
        return List(']', depth);
      case '(':
        return List(')', depth);
      case '{':
        return Dict(depth);
      default:
        return Scalar();
    }
  }

  std::optional<Json> List(char closer, int depth) {
    ++at_;
    Json list = Json::array();
    while (!Accept(closer)) {
      std::optional<Json> value = Value(depth + 1);
      if (!value) {
        return std::nullopt;
      }
      list.push_back(std::move(*value));
      if (!Accept(',') && !(at_ < text_.size() && text_[at_] == closer)) {
        return std::nullopt;
      }
    }
    return list;
  }

  std::optional<Json> Dict(int depth) {
    ++at_;
    Json dict = Json::object();
    while (!Accept('}')) {
      const std::optional<Json> key = Value(depth + 1);
      if (!key || !key->is_string() || !Accept(':')) {
        return std::nullopt;
      }
      std::optional<Json> value = Value(depth + 1);
      if (!value) {
        return std::nullopt;
      }
      dict[key->get<std::string>()] = std::move(*value);
      if (!Accept(',') && !(at_ < text_.size() && text_[at_] == '}')) {
        return std::nullopt;
      }
    }
    return dict;
  }

  std::optional<Json> Scalar() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (IsNameCharacter(text_[at_]) || text_[at_] == '+')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "False") {
      return Json(word == "True");
    }
    if (word == "None") {
      return Json(nullptr);
    }
    return IsJsonScalar(word) ? std::optional(*ParseJson(word)) : std::nullopt;
  }

  std::optional<Json> String() {
    const char quote = text_[at_];
    const std::string three(3, quote);
    const std::string closer = text_.substr(at_).starts_with(three) ? three : std::string(1, quote);
    at_ += closer.size();
    std::string out;
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with(closer)) {
        at_ += closer.size();
        return Json(std::move(out));
      }
      const char c = text_[at_++];
      if (c != '\\') {
        out += c;
      } else if (!Escape(out)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // Behind a backslash.
  bool Escape(std::string& out) {
    if (at_ >= text_.size()) {
      return false;
    }
    static constexpr std::string_view kNames = "ntrbfav0\\'\"";
    static constexpr std::string_view kValues{"\n\t\r\b\f\a\v\0\\'\"", 11};
    const char c = text_[at_++];
    if (const std::size_t found = kNames.find(c); found != std::string_view::npos) {
      out += kValues[found];
      return true;
    }
    if (c == '\n') {
      return true;  // a line that goes on
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      out += '\\';  // as Python does with one it does not know
      out += c;
      return true;
    }
    const std::string hex(text_.substr(at_, digits));
    if (hex.size() != digits ||
        hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      return false;
    }
    at_ += digits;
    const unsigned long code = std::stoul(hex, nullptr, 16);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return false;
    }
    AppendUtf8(static_cast<std::uint32_t>(code), out);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Where the list that begins here ends, behind its bracket; npos when it does not.
Task<std::size_t> FindListEnd(Scanner& in) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; co_await in.Need(i + 1); ++i) {
    const char c = in[i];
    if (quote != 0) {
      if (c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == ')' || c == '}') && --depth == 0) {
      co_return i + 1;
    }
  }
  co_return std::string_view::npos;
}

}  // namespace

std::optional<std::vector<PythonCall>> ParsePythonCalls(std::string_view text) {
  return PythonReader(text).Calls();
}

bool PutPythonCalls(CallContext& context, std::string_view text) {
  const std::optional<std::vector<PythonCall>> calls = ParsePythonCalls(text);
  if (!calls || std::ranges::any_of(*calls, [&](const PythonCall& call) {
        return context.Tool(call.name) == nullptr;
      })) {
    return false;
  }
  for (const PythonCall& call : *calls) {
    context.out.BeginCall(call.name);
    context.out.Arguments(DumpJson(call.arguments));
    context.out.EndCall();
  }
  return true;
}

Task<bool> ReadPythonList(CallContext& context) {
  Scanner& in = context.in;
  // Most lists are ordinary text: only one that begins with an offered name is waited for.
  std::size_t at = 1;
  while (co_await in.Need(at + 1) && IsSpace(in[at])) {
    ++at;
  }
  const std::size_t begin = at;
  while (co_await in.Need(at + 1) && IsNameCharacter(in[at])) {
    ++at;
  }
  const bool more = co_await in.Need(at + 1);
  const std::string name(in.Peek(at).substr(std::min(begin, in.Peek(at).size())));
  if (!more || in[0] != '[' || in[at] != '(' || context.Tool(name) == nullptr) {
    co_return false;
  }
  const std::size_t end = co_await FindListEnd(in);
  if (end == std::string_view::npos || !PutPythonCalls(context, in.Peek(end))) {
    co_return false;
  }
  in.Take(end);
  co_return true;
}

}  // namespace parsers
