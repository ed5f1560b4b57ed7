#pragma once

#include "api/generate.h"
#include "api/validation.h"

namespace api {

// The answer as JSON of that schema; of json_object, any object. `param`: the field that asks.
[[nodiscard]] AnswerForm JsonForm(Json schema, std::string param);
[[nodiscard]] AnswerForm JsonObjectForm(std::string param);

// The fields of vLLM and llama-server that give the answer a form: guided_json, guided_regex,
// guided_choice, guided_grammar, structured_outputs {json, json_object, regex, choice, grammar},
// json_schema and grammar (GBNF, or Lark). Faults, such as two of them, are recorded in `fields`.
[[nodiscard]] AnswerForm ReadAnswerForm(FieldReader& fields);

// The form as an expression of a grammar (parsers::ReplyRules::answer); empty for any text.
[[nodiscard]] std::string AnswerExpression(const AnswerForm& form);

}  // namespace api
