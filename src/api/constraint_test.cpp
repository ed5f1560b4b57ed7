#include "api/constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "api/answer_form.h"
#include "api/testing_served_model.h"

namespace api {
namespace {

const Json kSortParameters = Json::parse(R"({
  "type": "object",
  "properties": {"color": {"enum": ["red", "green"]},
                 "count": {"type": "integer", "minimum": 1, "maximum": 20},
                 "note": {"type": "string"},
                 "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
                 "deep": {"type": "object", "properties": {"ok": {"type": "boolean"}},
                          "required": ["ok"]}},
  "required": ["color", "count"]})");

std::vector<chat::ToolSpec> Tools() {
  return {{.name = "sort_shelf", .parameters = kSortParameters},
          {.name = "list-all", .parameters = Json()}};
}

// A model's tokenizer in which the markers of a format are special tokens, or ordinary text.
struct FormatModel {
  FormatModel(const parsers::ParserFormat& parser_format, bool special) : format(parser_format) {
    model_files::TokenizerFiles files;
    Json json = Json::parse(ReadTestFile("tests/fixtures/tokenizers/qwen3/tokenizer.json"));
    Json added = Json::array();
    for (const Json& token : json["added_tokens"]) {
      if (std::ranges::find(format.markers, token["content"].get<std::string>()) ==
          format.markers.end()) {
        added.push_back(token);
      }
    }
    int next = 151700;
    for (const std::string_view marker : format.markers) {
      if (special) {
        added.push_back({{"id", next++},
                         {"content", marker},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", true}});
      }
    }
    json["added_tokens"] = added;
    files.tokenizer_json = json.dump();
    files.eos_token = "<|im_end|>";
    files.chat_template = "{{ tools }}{{ messages }}";
    served.tokenizer = chat::Tokenizer::Load(files).value();
    served.chat_template = chat::ChatTemplate::Load(files, "", served.tokenizer).value();
    served.eos_ids = {served.tokenizer->Find("<|im_end|>")};
    served.parser_format = &format;
    served.grammars = std::make_unique<chat::GrammarFactory>(served.tokenizer, served.eos_ids,
                                                             served.tokenizer->vocab_size());
  }

  [[nodiscard]] TokenId eos() const { return served.eos_ids.front(); }
  [[nodiscard]] std::vector<TokenId> Encode(std::string_view text) const {
    return served.tokenizer->Encode(text, chat::Tokenizer::SpecialTokens::kParse, false).value();
  }

  const parsers::ParserFormat& format;
  ServedModel served;
};

bool IsSet(std::span<const std::uint32_t> mask, TokenId id) {
  const auto bit = static_cast<std::size_t>(id);
  return bit / 32 < mask.size() && (mask[bit / 32] >> (bit % 32) & 1U) != 0;
}

// A text that a model of no sense writes under a constraint: any token that may come, now and then
// the closers of what it may be in, and it ends when it may.
class NonsenseModel {
 public:
  NonsenseModel(const FormatModel& model, unsigned seed) : model_(model), random_(seed) {
    for (const std::string_view closer :
         {"\"", "}", "</parameter>", "</arg_value>", "</\uFF5CDSML\uFF5Cparameter>",
          "</steptml:parameter>", "<|\"|>", "<escape>"}) {
      closers_.push_back(model.Encode(closer));
    }
  }

  // Empty when it grew too long.
  std::string Write(TokenConstraint& constraint) {
    std::string text;
    std::vector<TokenId> plan;  // a closer being written
    for (int n = 0; n < 1500; ++n) {
      const auto mask = constraint.AllowedTokens().value();
      if (plan.empty() && random_() % 3 == 0) {
        plan = closers_[random_() % closers_.size()];
      }
      const bool planned = !plan.empty() && IsSet(mask, plan.front());
      const TokenId token = IsSet(mask, model_.eos()) ? model_.eos()
                            : planned                 ? plan.front()
                                                      : AnyOf(mask);
      if (planned) {
        plan.erase(plan.begin());
      } else {
        plan.clear();
      }
      const Result<void> accepted = constraint.Accept(token);
      EXPECT_TRUE(accepted.has_value()) << accepted.error().message << " after " << text;
      if (token == model_.eos() || !accepted) {
        return text;
      }
      text += model_.served.tokenizer->TokenBytes(token);
    }
    return "";
  }

 private:
  TokenId AnyOf(std::span<const std::uint32_t> mask) {
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < model_.served.tokenizer->vocab_size(); ++id) {
      if (IsSet(mask, id)) {
        allowed.push_back(id);
      }
    }
    EXPECT_FALSE(allowed.empty());
    return allowed.at(random_() % allowed.size());
  }

  const FormatModel& model_;
  std::mt19937 random_;
  std::vector<std::vector<TokenId>> closers_;
};

struct Parsed {
  std::string text;
  std::vector<std::pair<std::string, Json>> calls;
};

Parsed Parse(const FormatModel& model, const GenerationInput& input, const std::string& text) {
  Parsed parsed;
  std::vector<std::string> arguments;
  const auto take = [&](const chat::StreamEvent& event) {
    if (const auto* delta = std::get_if<chat::TextDelta>(&event)) {
      parsed.text += delta->text;
    } else if (const auto* begin = std::get_if<chat::ToolCallBegin>(&event)) {
      parsed.calls.emplace_back(begin->name, Json());
      arguments.emplace_back();
    } else if (const auto* more = std::get_if<chat::ToolArgumentsDelta>(&event)) {
      arguments.back() += more->fragment;
    }
  };
  const auto parser = model.format.make({.tools = input.tools, .prompt_tail = input.prompt_tail});
  parser->Feed(text, take);
  parser->Finish(/*cut=*/false, take);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    parsed.calls[i].second = Json::parse(arguments[i], nullptr, false);
  }
  return parsed;
}

void ExpectValid(const std::string& name, const Json& arguments) {
  ASSERT_TRUE(arguments.is_object());
  if (name == "list-all") {
    EXPECT_TRUE(arguments.empty()) << arguments;
    return;
  }
  ASSERT_EQ(name, "sort_shelf");
  EXPECT_TRUE(arguments.value("color", "") == "red" || arguments.value("color", "") == "green")
      << arguments;
  ASSERT_TRUE(arguments.contains("count") && arguments["count"].is_number_integer()) << arguments;
  EXPECT_TRUE(arguments["count"] >= 1 && arguments["count"] <= 20) << arguments;
  EXPECT_TRUE(!arguments.contains("note") || arguments["note"].is_string()) << arguments;
  EXPECT_TRUE(!arguments.contains("tags") || arguments["tags"].is_array()) << arguments;
  EXPECT_TRUE(!arguments.contains("deep") || arguments["deep"].value("ok", Json()).is_boolean())
      << arguments;
  for (const auto& [key, value] : arguments.items()) {
    EXPECT_TRUE(kSortParameters["properties"].contains(key)) << arguments;
  }
}

std::vector<const parsers::ParserFormat*> FormatsWithCalls() {
  std::vector<const parsers::ParserFormat*> formats;
  for (const parsers::ParserFormat* format : parsers::All()) {
    if (format->name != "plain_text") {
      formats.push_back(format);
    }
  }
  return formats;
}

TEST(Constraint, DemandedCallsAreValidInEveryFormat) {
  for (const parsers::ParserFormat* format : FormatsWithCalls()) {
    for (const bool special : {false, true}) {
      SCOPED_TRACE(std::string(format->name) + (special ? ", special tokens" : ", plain text"));
      const FormatModel model(*format, special);
      const bool framed = format->name == "harmony";
      const GenerationInput input{.prompt_tail = framed ? "<|start|>assistant" : "",
                                  .tools = Tools(),
                                  .tool_choice = {.must_call = true}};
      int finished = 0;
      for (unsigned seed = 0; seed < 12; ++seed) {
        const auto constraint = MakeConstraint(model.served, input, {});
        ASSERT_TRUE(constraint.has_value()) << constraint.error().message;
        const std::string text = NonsenseModel(model, seed).Write(**constraint);
        if (text.empty()) {
          continue;
        }
        ++finished;
        const Parsed parsed = Parse(model, input, text);
        EXPECT_FALSE(parsed.calls.empty()) << text;
        EXPECT_EQ(parsed.text.find_first_not_of(" \n;"), std::string::npos) << text;
        for (const auto& [name, arguments] : parsed.calls) {
          ExpectValid(name, arguments);
        }
        if (HasFailure()) {
          FAIL() << text;
        }
      }
      EXPECT_GE(finished, 5);
    }
  }
}

TEST(Constraint, ANamedFunctionAndASingleCallAreKeptTo) {
  const FormatModel model(*parsers::FindFormat("hermes"), false);
  const GenerationInput input{
      .tools = Tools(),
      .tool_choice = {.must_call = true, .one_call = true, .names = {"list-all"}}};
  const auto constraint = MakeConstraint(model.served, input, {}).value();
  std::string text = NonsenseModel(model, 1).Write(*constraint);
  std::erase(text, ' ');
  EXPECT_EQ(text, "<tool_call>\n{\"name\":\"list-all\",\"arguments\":{}}\n</tool_call>");
}

GenerationOptions WithForm(AnswerForm form) {
  GenerationOptions options;
  options.form = std::move(form);
  return options;
}

// Whether every token of the text may come, and the end behind it.
::testing::AssertionResult Allows(const FormatModel& model, const GenerationInput& input,
                                  const std::string& text, const GenerationOptions& options = {}) {
  Result<std::unique_ptr<TokenConstraint>> constraint =
      MakeConstraint(model.served, input, options);
  if (!constraint) {
    return ::testing::AssertionFailure() << constraint.error().message;
  }
  std::vector<TokenId> tokens = model.Encode(text);
  tokens.push_back(model.eos());
  std::string before;
  for (const TokenId token : tokens) {
    if (!IsSet((*constraint)->AllowedTokens().value(), token)) {
      return ::testing::AssertionFailure()
             << "not " << model.served.tokenizer->TokenBytes(token) << " behind " << before;
    }
    EXPECT_TRUE((*constraint)->Accept(token).has_value());
    before += model.served.tokenizer->TokenBytes(token);
  }
  return ::testing::AssertionSuccess();
}

TEST(Constraint, OfferedToolsLeaveAllOtherTextFree) {
  for (const parsers::ParserFormat* format : FormatsWithCalls()) {
    for (const bool special : {false, true}) {
      SCOPED_TRACE(std::string(format->name) + (special ? ", special tokens" : ", plain text"));
      const FormatModel model(*format, special);
      const GenerationInput input{.tools = Tools()};
      const std::string frame = format->name == "harmony" ? "<|channel|>final<|message|>" : "";
      for (const std::string text :
           {"Good day.\n\n- one\n- two", "{\"name\": \"Bob\", \"age\": 3}", "[1, 2]",
            "Such a call is <tool|call> or `{\"name\": \"sort_shelf\"}`."}) {
        EXPECT_TRUE(Allows(model, input, frame + text));
      }
    }
  }
}

TEST(Constraint, BehindTheTriggerOnlyAWellFormedCallGoesOn) {
  const FormatModel model(*parsers::FindFormat("hermes"), false);
  const GenerationInput input{.tools = Tools()};
  const std::string head = "I see.\n<tool_call>\n{\"name\": \"";
  EXPECT_TRUE(Allows(model, input, head + "list-all\", \"arguments\": {}}\n</tool_call>\nDone."));
  EXPECT_FALSE(Allows(model, input, head + "list-none\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(Allows(model, input, head + "list-all\", \"arguments\": {\"x\": 1}}\n</tool_call>"));
  EXPECT_FALSE(Allows(model, input, head));
  EXPECT_TRUE(Allows(model, input, "One writes `<tool_call>` around it."));

  const FormatModel llama(*parsers::FindFormat("llama3_json"), false);
  EXPECT_TRUE(Allows(llama, input, R"({"name": "list-all", "parameters": {}})"));
  EXPECT_FALSE(Allows(llama, input, R"({"name": "list-all", "parameters": {"x": 1}})"));
}

TEST(Constraint, OneCallAtATimeMeansOne) {
  const FormatModel model(*parsers::FindFormat("hermes"), false);
  const std::string call = "<tool_call>\n{\"name\": \"list-all\", \"arguments\": {}}\n</tool_call>";
  GenerationInput input{.tools = Tools()};
  EXPECT_TRUE(Allows(model, input, call + "\n" + call));
  input.tool_choice.one_call = true;
  EXPECT_TRUE(Allows(model, input, call));
  EXPECT_FALSE(Allows(model, input, call + "\n" + call));
}

TEST(Constraint, AModelThatReasonsMayDoSoFirst) {
  const std::string call = "<tool_call>\n{\"name\": \"list-all\", \"arguments\": {}}\n</tool_call>";
  for (const bool special : {false, true}) {
    const FormatModel model(*parsers::FindFormat("hermes"), special);
    GenerationInput input{.tools = Tools(), .tool_choice = {.must_call = true}};
    if (special) {  // the vocabulary knows the tags
      EXPECT_TRUE(Allows(model, input, "<think>\nHm.\n</think>\n\n" + call));
      input.prompt_tail = "assistant\n<think>\n\n</think>\n\n";
    }
    EXPECT_FALSE(Allows(model, input, "<think>\nHm.\n</think>\n\n" + call));
    EXPECT_TRUE(Allows(model, input, call));
    input.prompt_tail = "assistant\n<think>\n";
    EXPECT_TRUE(Allows(model, input, "Hm.\n</think>\n\n" + call));
    EXPECT_FALSE(Allows(model, input, "Hm.\n</think>\n\nNo."));
    const GenerationOptions json = WithForm(JsonObjectForm("response_format"));
    input.tools.clear();
    input.tool_choice = {};
    EXPECT_TRUE(Allows(model, input, "Hm.\n</think>\n\n{\"a\": 1}", json));
    EXPECT_FALSE(Allows(model, input, "Hm.\n</think>\n\nNo.", json));
  }
}

// Templates write a call as their models do: the parser reads it, and the grammar allows it.
TEST(Constraint, WhatATemplateWritesForACallIsOne) {
  const Json formats = Json::parse(ReadTestFile("tests/fixtures/templates/formats.json"));
  int checked = 0;
  for (const auto& [name, format_name] : formats.items()) {
    const std::string source = ReadTestFile("tests/fixtures/templates/" + name + ".jinja");
    if (!source.starts_with("{#- Rebuilt")) {
      continue;  // of a model with a tokenizer of its own
    }
    SCOPED_TRACE(name);
    const FormatModel model(*parsers::FindFormat(format_name.get<std::string>()), false);
    model_files::TokenizerFiles files;
    files.chat_template = source;
    const auto chat_template = chat::ChatTemplate::Load(files, "", model.served.tokenizer).value();
    const Json arguments = {{"color", "red"}, {"count", 3}, {"note", "a \"b\""}};
    chat::Conversation conversation{.messages = {{.role = chat::Role::kUser, .content = "Sort."}},
                                    .tools = Tools()};
    for (chat::ToolSpec& tool : conversation.tools) {
      tool.original = {{"type", "function"}, {"function", {{"name", tool.name}}}};
    }
    const std::string prompt = chat_template->Render(conversation).value().text;
    conversation.messages.push_back(
        {.role = chat::Role::kAssistant,
         .tool_calls = {{.id = "abcdefghi", .name = "sort_shelf", .arguments = arguments}}});
    conversation.add_generation_prompt = false;
    const std::string whole = chat_template->Render(conversation).value().text;
    const auto [differs, unused] = std::ranges::mismatch(whole, prompt);
    const std::string reply(differs, whole.end());
    const GenerationInput input{.prompt_tail = prompt.substr(prompt.size() - 20),
                                .tools = Tools(),
                                .tool_choice = {.must_call = true}};
    const Parsed parsed = Parse(model, input, reply);
    ASSERT_EQ(parsed.calls.size(), 1U) << reply;
    EXPECT_EQ(parsed.calls[0].first, "sort_shelf");
    EXPECT_EQ(parsed.calls[0].second, arguments) << reply;
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

TEST(Constraint, AnAnswerInAFormAndCallsGoTogether) {
  const FormatModel model(*parsers::FindFormat("hermes"), false);
  const GenerationInput input{.tools = Tools()};
  const GenerationOptions json = WithForm(JsonObjectForm("response_format"));
  EXPECT_TRUE(Allows(model, input, "{\"a\": [1, 2]}", json));
  EXPECT_TRUE(Allows(model, input,
                     "<tool_call>\n{\"name\": \"list-all\", \"arguments\": {}}\n</tool_call>",
                     json));
  EXPECT_FALSE(Allows(model, input, "Good day.", json));
}

TEST(Constraint, VllmsAndLlamaServersFieldsGiveTheAnswerAForm) {
  const FormatModel model(*parsers::FindFormat("hermes"), false);
  struct Case {
    const char* fields;
    const char* good;
    const char* bad;
  };
  for (const Case& each :
       {Case{R"({"guided_choice": ["yes", "no"]})", "no", "maybe"},
        Case{R"({"guided_regex": "[a-c]+/[0-9]{2}"})", "abc/12", "abc/1"},
        Case{R"({"guided_json": {"type": "integer"}})", "12", "x"},
        Case{R"({"guided_json": "{\"type\": \"integer\"}"})", "12", "x"},
        Case{R"({"guided_grammar": "start: \"a\" | \"{\" start \"}\""})", "{{a}}", "{a"},
        Case{R"({"grammar": "root ::= \"a\" | \"(\" root \")\""})", "((a))", "(a"},
        Case{R"({"json_schema": {"type": "boolean"}})", "true", "1"},
        Case{R"({"structured_outputs": {"json": {"type": "boolean"}}})", "true", "1"},
        Case{R"({"structured_outputs": {"json_object": true}})", "{}", "1"},
        Case{R"({"structured_outputs": {"choice": ["a\n"]}})", "a\n", "a"},
        Case{R"({"structured_outputs": {"regex": "x"}})", "x", "y"},
        Case{R"({"structured_outputs": {"grammar": "start: \"a\""}})", "a", "b"}}) {
    const Json body = Json::parse(each.fields);
    FieldReader fields(body);
    const GenerationOptions options = WithForm(ReadAnswerForm(fields));
    ASSERT_FALSE(fields.error()) << each.fields << fields.error()->message;
    EXPECT_TRUE(Allows(model, {}, each.good, options)) << each.fields;
    EXPECT_FALSE(Allows(model, {}, each.bad, options)) << each.fields;
  }
}

TEST(Constraint, AFormThatCannotBeUsedIsRefusedByItsName) {
  const FormatModel model(*parsers::FindFormat("hermes"), false);
  for (const auto& [text, param] :
       {std::pair(R"({"guided_choice": []})", "guided_choice"),
        std::pair(R"({"guided_json": "{"})", "guided_json"),
        std::pair(R"({"grammar": "root ::= nowhere"})", "grammar"),
        std::pair(R"({"guided_regex": "a", "guided_choice": ["b"]})", "guided_choice"),
        std::pair(R"({"structured_outputs": {"regex": "a", "json": {}}})",
                  "structured_outputs.regex"),
        std::pair(R"({"guided_regex": "("})", "guided_regex"),
        std::pair(R"({"guided_grammar": "start: nowhere"})", "guided_grammar"),
        std::pair(R"({"structured_outputs": {"json": {"$ref": "#"}}})",
                  "structured_outputs.json")}) {
    const Json body = Json::parse(text);
    FieldReader fields(body);
    const GenerationOptions options = WithForm(ReadAnswerForm(fields));
    std::optional<Error> error = fields.error();
    if (!error) {
      const auto constraint = MakeConstraint(model.served, {}, options);
      ASSERT_FALSE(constraint.has_value()) << text;
      error = constraint.error();
    }
    EXPECT_EQ(error->code, ErrorCode::kInvalidRequest);
    EXPECT_EQ(error->param, param) << text << error->message;
  }
}

TEST(Constraint, AToolsSchemaThatCannotBeUsedIsNamedWhereItMatters) {
  const FormatModel model(*parsers::FindFormat("hermes"), false);
  const Json parameters = {
      {"type", "object"}, {"properties", {{"a", {{"type", "string"}, {"not", {{"const", "b"}}}}}}}};
  GenerationInput input{.tools = {{.name = "f", .parameters = parameters}}};
  EXPECT_TRUE(MakeConstraint(model.served, input, {}).has_value());  // any agent's tools
  input.tools[0].strict = true;
  Result<std::unique_ptr<TokenConstraint>> refused = MakeConstraint(model.served, input, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(refused.error().param, "tools");
  EXPECT_NE(refused.error().message.find("\"not\""), std::string::npos) << refused.error().message;
  input.tools[0].strict = false;
  input.tool_choice.must_call = true;
  EXPECT_FALSE(MakeConstraint(model.served, input, {}).has_value());

  input.tools[0].parameters = {{"$ref", "#"}};
  refused = MakeConstraint(model.served, input, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidRequest);
}

}  // namespace
}  // namespace api
