#include "parsers/shared_brace_call.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "parsers/shared_json_scan.h"
#include "parsers/shared_typed_value.h"

namespace parsers {
namespace {

bool IsKeyCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' ||
         c == '$';
}

// Every function gives nothing at the first thing that cannot be.
class BraceReader {
 public:
  BraceReader(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  // The whole text as one object.
  std::optional<Json> WholeObject() {
    std::optional<Json> object = FirstObject();
    SkipSpace();
    return at_ == text_.size() ? std::move(object) : std::nullopt;
  }
  // The object at its beginning.
  std::optional<Json> FirstObject() { return Object(0); }
  // How much was read.
  [[nodiscard]] std::size_t position() const { return at_; }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) {
      ++at_;
    }
  }
  bool Accept(std::string_view literal) {
    SkipSpace();
    if (!text_.substr(at_).starts_with(literal)) {
      return false;
    }
    at_ += literal.size();
    return true;
  }

  std::optional<Json> Value(bool in_list, int depth) {
    if (depth > kMaxJsonDepth) {
      return std::nullopt;
    }
    if (Accept(quote_)) {
      return Quoted(in_list);
    }
    SkipSpace();
    if (at_ >= text_.size()) {
      return std::nullopt;
    }
    switch (text_[at_]) {
      case '{':
        return Object(depth + 1);
      case '[':
        return List(depth + 1);
      case '"':
        return JsonString();
      default:
        return Bare();
    }
  }

  std::optional<Json> Object(int depth) {
    if (!Accept("{")) {
      return std::nullopt;
    }
    Json object = Json::object();
    while (!Accept("}")) {
      const std::optional<std::string> key = Key();
      if (!key || !Accept(":")) {
        return std::nullopt;
      }
      std::optional<Json> value = Value(/*in_list=*/false, depth);
      if (!value) {
        return std::nullopt;
      }
      object[*key] = std::move(*value);
      if (!Accept(",") && !Sees('}')) {
        return std::nullopt;
      }
    }
    return object;
  }

  std::optional<Json> List(int depth) {
    (void)Accept("[");
    Json list = Json::array();
    while (!Accept("]")) {
      std::optional<Json> value = Value(/*in_list=*/true, depth);
      if (!value) {
        return std::nullopt;
      }
      list.push_back(std::move(*value));
      if (!Accept(",") && !Sees(']')) {
        return std::nullopt;
      }
    }
    return list;
  }

  bool Sees(char c) {
    SkipSpace();
    return at_ < text_.size() && text_[at_] == c;
  }

  std::optional<std::string> Key() {
    if (Accept(quote_)) {
      const std::size_t end = text_.find(quote_, at_);
      if (end == std::string_view::npos) {
        return std::nullopt;
      }
      const std::size_t begin = std::exchange(at_, end + quote_.size());
      return std::string(text_.substr(begin, end - begin));
    }
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '"') {
      const std::optional<Json> key = JsonString();
      return key ? std::optional(key->get<std::string>()) : std::nullopt;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsKeyCharacter(text_[at_])) {
      ++at_;
    }
    return at_ > begin ? std::optional(std::string(text_.substr(begin, at_ - begin)))
                       : std::nullopt;
  }

  // Behind the opening token. The one that closes is followed by what may follow a value; those
  // inside stand for plain quotes.
  std::optional<Json> Quoted(bool in_list) {
    std::string out;
    while (true) {
      const std::size_t end = text_.find(quote_, at_);
      if (end == std::string_view::npos) {
        return std::nullopt;
      }
      out += text_.substr(at_, end - at_);
      at_ = end + quote_.size();
      if (ValueMayEndHere(in_list)) {
        return Json(std::move(out));
      }
      out += '"';
    }
  }

  [[nodiscard]] bool ValueMayEndHere(bool in_list) const {
    BraceReader next(text_.substr(at_), quote_);
    if (next.Accept(in_list ? "]" : "}")) {
      return true;
    }
    return next.Accept(",") && (in_list || (next.Key() && next.Accept(":")));
  }

  std::optional<Json> JsonString() {
    JsonScan scan;
    std::string json;
    while (at_ < text_.size()) {
      const JsonScan::Result result = scan.Push(text_[at_++], json);
      if (result == JsonScan::Result::kDone) {
        const Result<Json> value = ParseJson(json);
        return value ? std::optional(*value) : std::nullopt;
      }
      if (result == JsonScan::Result::kBad) {
        break;
      }
    }
    return std::nullopt;
  }

  // A number or a word; a string whose opening token is missing.
  std::optional<Json> Bare() {
    const std::size_t end = std::min(text_.find_first_of(",}]", at_), text_.size());
    std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    while (!word.empty() && IsSpace(word.back())) {
      word.remove_suffix(1);
    }
    if (word.ends_with(quote_)) {
      return Json(std::string(word.substr(0, word.size() - quote_.size())));
    }
    if (word.empty()) {
      return std::nullopt;
    }
    const Result<Json> value = IsJsonScalar(word) ? ParseJson(word) : Json(std::string(word));
    return value ? std::optional(*value) : std::nullopt;
  }

  std::string_view text_;
  std::string_view quote_;
  std::size_t at_ = 0;
};

// Words that the schema calls strings.
void KeepStrings(const Json& parameters, Json& arguments) {
  for (auto& [name, value] : arguments.items()) {
    const Json* schema = PropertySchema(parameters, name);
    if (schema != nullptr && IsStringOnly(schema) && (value.is_number() || value.is_boolean())) {
      value = DumpJson(value);
    }
  }
}

}  // namespace

Task<bool> ReadBraceCall(CallContext& context, const BraceCallSyntax& syntax) {
  Scanner& in = context.in;
  std::string name;
  while (co_await in.Need(1) && IsKeyCharacter(in[0])) {
    name += in.Take(1);
  }
  const bool opens = co_await in.Sees("{");
  const chat::ToolSpec* tool = context.Tool(name);
  if (!opens || tool == nullptr) {
    co_return false;
  }
  // The closer may stand in a string: the first one that ends a well-formed call counts.
  for (std::size_t from = 0;; ++from) {
    const std::size_t at = co_await in.Find(syntax.closer, from);
    const bool closed = at != std::string_view::npos;
    BraceReader reader(in.Peek(closed ? at : in.available()), syntax.quote);
    std::optional<Json> arguments = closed ? reader.WholeObject() : reader.FirstObject();
    if (arguments) {
      KeepStrings(tool->parameters, *arguments);
      context.out.BeginCall(name);
      context.out.Arguments(DumpJson(*arguments));
      context.out.EndCall();
      in.Take(closed ? at + syntax.closer.size() : reader.position());
      co_return true;
    }
    if (!closed) {
      co_return false;
    }
    from = at;
  }
}

}  // namespace parsers
