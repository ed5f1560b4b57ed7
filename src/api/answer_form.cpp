#include "api/answer_form.h"

#include <fmt/format.h>

#include <utility>

#include "chat/gbnf.h"

namespace api {
namespace {

using Kind = AnswerForm::Kind;

// The fields of one object; the names that each form has there.
class FormReader {
 public:
  FormReader(FieldReader& fields, std::string prefix, AnswerForm& form)
      : fields_(fields), prefix_(std::move(prefix)), form_(form) {}

  // A schema, or its JSON text.
  void Schema(const char* name) {
    const Json* value = fields_.Find(name);
    if (value == nullptr) {
      return;
    }
    const Result<Json> parsed =
        value->is_string() ? ParseJson(value->get_ref<const std::string&>()) : Result<Json>(*value);
    if (!parsed || !parsed->is_object()) {
      fields_.FailField(name, "must be a JSON schema: an object, or the text of one.");
    } else {
      Set(name, {.kind = Kind::kJsonSchema, .schema = *parsed});
    }
  }

  void Object(const char* name) {
    if (fields_.Bool(name).value_or(false)) {
      Set(name, {.kind = Kind::kJsonSchema, .schema = {{"type", "object"}}});
    }
  }

  void Regex(const char* name) {
    if (const auto text = fields_.String(name)) {
      Set(name, {.kind = Kind::kRegex, .text = *text});
    }
  }

  void Choice(const char* name) {
    const Json* list = fields_.Array(name);
    if (list == nullptr) {
      return;
    }
    AnswerForm form{.kind = Kind::kChoice};
    for (const Json& choice : *list) {
      if (choice.is_string() && !choice.get_ref<const std::string&>().empty()) {
        form.choices.push_back(choice.get<std::string>());
      }
    }
    if (form.choices.empty() || form.choices.size() != list->size()) {
      fields_.FailField(name, "must be a list of strings, none of them empty.");
    } else {
      Set(name, std::move(form));
    }
  }

  // Empty is none: llama-server's clients send that.
  void Grammar(const char* name) {
    const auto text = fields_.String(name);
    if (!text || text->empty()) {
      return;
    }
    Result<std::string> lark = chat::IsGbnf(*text) ? chat::LarkOfGbnf(*text) : *text;
    if (!lark) {
      fields_.FailField(name, lark.error().message);
    } else {
      Set(name, {.kind = Kind::kGrammar, .text = std::move(*lark)});
    }
  }

 private:
  void Set(const char* name, AnswerForm form) {
    form.param = prefix_ + name;
    if (form_.kind != Kind::kText) {
      fields_.FailField(name, fmt::format("cannot be used together with `{}`.", form_.param));
    }
    form_ = std::move(form);
  }

  FieldReader& fields_;
  std::string prefix_;
  AnswerForm& form_;
};

}  // namespace

AnswerForm JsonForm(Json schema, std::string param) {
  return {.kind = Kind::kJsonSchema, .schema = std::move(schema), .param = std::move(param)};
}

AnswerForm JsonObjectForm(std::string param) {
  return JsonForm({{"type", "object"}}, std::move(param));
}

AnswerForm ReadAnswerForm(FieldReader& fields) {
  AnswerForm form;
  FormReader reader(fields, "", form);
  reader.Schema("guided_json");
  reader.Regex("guided_regex");
  reader.Choice("guided_choice");
  reader.Grammar("guided_grammar");
  reader.Schema("json_schema");
  reader.Grammar("grammar");
  if (const Json* outputs = fields.Object("structured_outputs")) {
    FieldReader inner(*outputs, "structured_outputs.");
    FormReader inner_reader(inner, "structured_outputs.", form);
    inner_reader.Schema("json");
    inner_reader.Object("json_object");
    inner_reader.Regex("regex");
    inner_reader.Choice("choice");
    inner_reader.Grammar("grammar");
    if (inner.error()) {
      fields.FailWith(*inner.error());
    }
  }
  return form;
}

std::string AnswerExpression(const AnswerForm& form) {
  switch (form.kind) {
    case Kind::kText:
      return "";
    case Kind::kJsonSchema:
      return parsers::JsonExpression(form.schema);
    case Kind::kRegex:
      return parsers::RegexExpression(form.text);
    case Kind::kChoice:
      return parsers::ChoiceExpression(form.choices);
    case Kind::kGrammar:
      return fmt::format("%lark {{\n{}\n}}", form.text);
  }
  return "";
}

}  // namespace api
