#include "parsers/shared_json_scan.h"

#include <fmt/format.h>

#include "base/json.h"

namespace parsers {
namespace {

constexpr std::size_t kMaxDepth = kMaxJsonDepth;

bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool EndsScalar(char c) { return IsJsonSpace(c) || c == ',' || c == '}' || c == ']'; }

void AppendEscaped(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
  }
}

}  // namespace

JsonScan::Result JsonScan::Push(char c, std::string& out) {
  if (string_ != String::kNone) {
    return PushInString(c, out);
  }
  if (!scalar_.empty()) {
    return PushInScalar(c, out);
  }
  if (IsJsonSpace(c)) {
    out += c;
    return Result::kMore;
  }
  return PushStructure(c, out);
}

JsonScan::Result JsonScan::PushInString(char c, std::string& out) {
  switch (string_) {
    case String::kHex:
      if (!IsHex(c)) {
        return Result::kBad;
      }
      out += c;
      string_ = --hex_left_ == 0 ? String::kPlain : String::kHex;
      return Result::kMore;
    case String::kEscape:
      string_ = String::kPlain;
      if (c == 'u') {
        string_ = String::kHex;
        hex_left_ = 4;
        out += "\\u";
      } else if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos) {
        out += '\\';
        out += c;
      } else if (c == '\'') {
        out += c;
      } else {
        out += "\\\\";
        AppendEscaped(c, out);
      }
      return Result::kMore;
    default:
      break;
  }
  if (c == '\\') {
    string_ = String::kEscape;
    return Result::kMore;
  }
  if (c != '"') {
    AppendEscaped(c, out);
    return Result::kMore;
  }
  out += c;
  string_ = String::kNone;
  if (string_is_key_) {
    expect_ = Expect::kColon;
    return Result::kMore;
  }
  return AfterValue();
}

JsonScan::Result JsonScan::PushInScalar(char c, std::string& out) {
  if (!EndsScalar(c)) {
    // A word goes out once it is known to be one.
    scalar_ += c;
    return scalar_.size() > 400 ? Result::kBad : Result::kMore;
  }
  if (!IsJsonScalar(scalar_)) {
    return Result::kBad;
  }
  out += scalar_;
  scalar_.clear();
  (void)AfterValue();  // a scalar is never outermost
  return Push(c, out);
}

JsonScan::Result JsonScan::PushStructure(char c, std::string& out) {
  const bool wants_value = expect_ == Expect::kValue || expect_ == Expect::kValueOrEnd;
  switch (c) {
    case '{':
    case '[':
      return wants_value ? Open(c, out) : Result::kBad;
    case '}':
    case ']':
      return Close(c, out);
    case '"':
      if (!wants_value && expect_ != Expect::kKey && expect_ != Expect::kKeyOrEnd) {
        return Result::kBad;
      }
      string_is_key_ = !wants_value;
      string_ = String::kPlain;
      out += c;
      return Result::kMore;
    case ':':
      if (expect_ != Expect::kColon) {
        return Result::kBad;
      }
      expect_ = Expect::kValue;
      out += c;
      return Result::kMore;
    case ',':
      if (expect_ != Expect::kCommaOrEnd) {
        return Result::kBad;
      }
      expect_ = open_.back() == '{' ? Expect::kKey : Expect::kValue;
      out += c;
      return Result::kMore;
    default:
      if (!wants_value || open_.empty()) {
        return Result::kBad;
      }
      scalar_ = c;
      return Result::kMore;
  }
}

JsonScan::Result JsonScan::Open(char c, std::string& out) {
  if (open_.size() >= kMaxDepth) {
    return Result::kBad;
  }
  open_.push_back(c);
  expect_ = c == '{' ? Expect::kKeyOrEnd : Expect::kValueOrEnd;
  out += c;
  return Result::kMore;
}

JsonScan::Result JsonScan::Close(char c, std::string& out) {
  const Expect may_end = c == '}' ? Expect::kKeyOrEnd : Expect::kValueOrEnd;
  const bool fits = !open_.empty() && open_.back() == (c == '}' ? '{' : '[') &&
                    (expect_ == Expect::kCommaOrEnd || expect_ == may_end);
  if (!fits) {
    return Result::kBad;
  }
  open_.pop_back();
  out += c;
  return AfterValue();
}

JsonScan::Result JsonScan::AfterValue() {
  expect_ = Expect::kCommaOrEnd;
  return open_.empty() ? Result::kDone : Result::kMore;
}

bool IsJsonScalar(std::string_view text) {
  if (text.empty() || text.front() == '{' || text.front() == '[' || text.front() == '"') {
    return false;
  }
  return Json::accept(text);
}

std::string JsonEscaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    AppendEscaped(c, out);
  }
  return out;
}

}  // namespace parsers
