#include "api/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/answer_form.h"
#include "base/log.h"

namespace api {
namespace {

using Constraint = std::unique_ptr<TokenConstraint>;

bool MayBeCalled(const chat::ToolChoice& choice, const chat::ToolSpec& tool) {
  return choice.names.empty() || std::ranges::find(choice.names, tool.name) != choice.names.end();
}

parsers::ReplyRules Rules(const ServedModel& model, const GenerationInput& input,
                          const GenerationOptions& options) {
  const bool must_call = input.tool_choice.must_call;
  // A model that has never seen tools calls the same one again and again when it may.
  const bool one_call =
      input.tool_choice.one_call || (must_call && !model.chat_template->shows_tools());
  parsers::ReplyRules rules{.must_call = must_call,
                            .one_call = one_call,
                            .answer = AnswerExpression(options.form),
                            .prompt_tail = input.prompt_tail,
                            .chat_template = model.chat_template->source()};
  std::ranges::copy_if(
      input.tools, std::back_inserter(rules.tools),
      [&](const chat::ToolSpec& tool) { return MayBeCalled(input.tool_choice, tool); });
  for (const chat::Tokenizer::AddedToken& token : model.tokenizer->added_tokens()) {
    if (token.special && std::ranges::find(model.eos_ids, token.id) == model.eos_ids.end()) {
      rules.special_tokens.push_back({.id = token.id, .text = token.text});
    }
  }
  return rules;
}

}  // namespace

Result<Constraint> MakeConstraint(const ServedModel& model, const GenerationInput& input,
                                  const GenerationOptions& options) {
  const bool formatted = options.form.kind != AnswerForm::Kind::kText;
  const bool calls = options.parse_output && !input.tools.empty();
  if ((!formatted && !calls) || model.scripted_tokens > 0) {
    return nullptr;
  }
  if (model.grammars == nullptr) {
    return Fail(ErrorCode::kUnsupported, "This model's output cannot be constrained.",
                formatted ? options.form.param : "tools");
  }
  const parsers::ReplyRules rules = Rules(model, input, options);
  // A text that is not parsed has neither calls nor reasoning.
  const parsers::ParserFormat& format =
      options.parse_output ? *model.parser_format : *parsers::FindFormat("plain_text");
  const std::optional<std::string> grammar = parsers::ReplyGrammar(format, rules);
  if (!grammar && !rules.must_call) {
    return nullptr;
  }
  if (!grammar) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("`tool_choice` cannot demand a call of this model: its format, {}, "
                            "has none.",
                            model.parser_format->name),
                "tool_choice");
  }
  Result<Constraint> constraint = model.grammars->Lark(*grammar);
  if (constraint) {
    return constraint;
  }
  Error error = constraint.error();
  const bool strict = std::ranges::any_of(rules.tools, &chat::ToolSpec::strict);
  if (error.code == ErrorCode::kInvalidRequest && !formatted && !rules.must_call && !strict) {
    // Agents offer tools with any schema, and a model that may call one mostly does it well.
    spdlog::warn("calls are not constrained in this reply: {}", error.message);
    return nullptr;
  }
  error.param = formatted ? options.form.param : "tools";
  return Fail(std::move(error));
}

}  // namespace api
