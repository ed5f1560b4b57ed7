// Every format, by the cases of tests/fixtures/parse_cases: whatever the pieces in which a text
// comes, and wherever it is cut, the result is the same, and nothing is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "parsers/parser.h"
#include "test_paths.h"

namespace parsers {
namespace {

struct Case {
  Json line{};
  std::vector<chat::ToolSpec> tools{};
  std::string raw{};
  std::string prompt_tail{};
  const ParserFormat* format = nullptr;
};

std::vector<Case> ReadCases() {
  std::vector<Case> cases;
  const std::filesystem::path folder =
      std::string(EMBERBANK_SOURCE_DIR) + "/tests/fixtures/parse_cases";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      Case read;
      read.line = ParseJson(line).value();
      if (read.line["tool_choice"] != "none") {
        for (const Json& tool : read.line["tools"]) {
          const Json& function = tool["function"];
          read.tools.push_back({.name = function["name"],
                                .parameters = function.value("parameters", Json()),
                                .original = tool});
        }
      }
      read.raw = read.line["raw"];
      read.prompt_tail = read.line["prompt_tail"].is_string() ? read.line["prompt_tail"] : "";
      read.format = FindFormat(read.line["format"].get<std::string>());
      EXPECT_NE(read.format, nullptr) << read.line["format"];
      cases.push_back(std::move(read));
    }
  }
  EXPECT_GT(cases.size(), 250U);
  return cases;
}

struct Call {
  std::string name;
  std::string arguments;
  bool ended = false;
  bool operator==(const Call&) const = default;
};

struct Result {
  std::string content;
  std::string reasoning;
  std::vector<Call> calls;
  bool operator==(const Result&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Result& result) {
  out << "content " << Json(result.content) << ", reasoning " << Json(result.reasoning);
  for (const Call& call : result.calls) {
    out << ", call " << call.name << " " << call.arguments;
  }
  return out;
}

Result Parse(const Case& read, const std::vector<std::string>& pieces, bool cut) {
  const auto parser = read.format->make({.tools = read.tools, .prompt_tail = read.prompt_tail});
  Result result;
  const EventSink take = [&](const chat::StreamEvent& event) {
    if (const auto* text = std::get_if<chat::TextDelta>(&event)) {
      result.content += text->text;
    } else if (const auto* reasoning = std::get_if<chat::ReasoningDelta>(&event)) {
      result.reasoning += reasoning->text;
    } else if (const auto* begin = std::get_if<chat::ToolCallBegin>(&event)) {
      EXPECT_EQ(begin->index, static_cast<int>(result.calls.size()));
      EXPECT_FALSE(begin->id.empty());
      result.calls.push_back({.name = begin->name, .arguments = ""});
    } else if (const auto* arguments = std::get_if<chat::ToolArgumentsDelta>(&event)) {
      EXPECT_FALSE(result.calls.back().ended);
      result.calls.at(static_cast<std::size_t>(arguments->index)).arguments += arguments->fragment;
    } else {
      result.calls.back().ended = true;
    }
  };
  for (const std::string& piece : pieces) {
    parser->Feed(piece, take);
  }
  parser->Finish(cut, take);
  return result;
}

// Where a piece may end: between characters.
std::vector<std::size_t> Borders(const std::string& text) {
  std::vector<std::size_t> borders;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      borders.push_back(i);
    }
  }
  return borders;
}

std::vector<std::string> Characters(const std::string& text) {
  std::vector<std::string> characters;
  const std::vector<std::size_t> borders = Borders(text);
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    characters.push_back(text.substr(borders[i], borders[i + 1] - borders[i]));
  }
  return characters;
}

std::string Trimmed(std::string text) {
  const std::size_t first = text.find_first_not_of(" \n\t\r");
  if (first == std::string::npos) {
    return "";
  }
  return text.substr(first, text.find_last_not_of(" \n\t\r") - first + 1);
}

bool Holds(const Result& result, const Json& expect) {
  const auto text = [&](const char* field) {
    return expect[field].is_string() ? expect[field].get<std::string>() : std::string();
  };
  const bool exact = expect.value("exact", Json()) == true;
  if (expect.contains("content") && (exact ? result.content != text("content")
                                           : Trimmed(result.content) != Trimmed(text("content")))) {
    return false;
  }
  if (expect.contains("reasoning_content") &&
      Trimmed(result.reasoning) != Trimmed(text("reasoning_content"))) {
    return false;
  }
  const Json calls = expect.value("tool_calls", Json::array());
  const bool partial = expect.contains("allow_partial_call");
  if (expect.contains("tool_calls") && result.calls.size() != calls.size() &&
      !(partial && result.calls.size() == calls.size() + 1)) {
    return false;
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (result.calls[i].name != calls[i]["name"] ||
        nlohmann::json::parse(result.calls[i].arguments) !=
            nlohmann::json::parse(calls[i]["arguments"].dump())) {
      return false;
    }
  }
  return true;
}

TEST(ParserConformance, EveryCaseHolds) {
  for (const Case& read : ReadCases()) {
    const bool cut = read.line["finish"] == "length";
    const Result whole = Parse(read, {read.raw}, cut);
    // Debatable cases only have to be the same whatever the pieces.
    if (!read.line.contains("debatable")) {
      EXPECT_TRUE(Holds(whole, read.line["expect"])) << read.line["id"] << ": " << whole;
    }
  }
}

TEST(ParserConformance, ThePiecesDoNotMatter) {
  for (const Case& read : ReadCases()) {
    const bool cut = read.line["finish"] == "length";
    const Result whole = Parse(read, {read.raw}, cut);
    EXPECT_EQ(Parse(read, Characters(read.raw), cut), whole) << read.line["id"];
    for (const std::size_t border : Borders(read.raw)) {
      const Result split = Parse(read, {read.raw.substr(0, border), read.raw.substr(border)}, cut);
      ASSERT_EQ(split, whole) << read.line["id"] << " split at " << border;
    }
  }
}

TEST(ParserConformance, ATextMayBeCutAnywhere) {
  for (const Case& read : ReadCases()) {
    for (const std::size_t border : Borders(read.raw)) {
      const std::string text = read.raw.substr(0, border);
      const Result whole = Parse(read, {text}, true);
      ASSERT_EQ(Parse(read, Characters(text), true), whole) << read.line["id"] << " at " << border;
      // Nothing was understood: then all of it is there.
      if (whole.calls.empty() && whole.reasoning.empty() && whole.content.size() > 2 &&
          text.find("think") == std::string::npos && read.format->name != "harmony") {
        ASSERT_TRUE(text.find(Trimmed(whole.content)) != std::string::npos)
            << read.line["id"] << " at " << border << ": " << whole;
      }
    }
  }
}

// A case's text with something taken out, doubled, moved or put in, as models do.
std::string Broken(std::string text, const std::string& other, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  const auto border = [&] {
    const std::vector<std::size_t> borders = Borders(text);
    return borders[below(borders.size())];
  };
  for (std::size_t n = 1 + below(3); n > 0; --n) {
    const std::size_t from = border();
    const std::size_t to = std::max(from, std::min(border(), from + 12 - from % 4));
    const std::string part = text.substr(from, to - from);
    switch (below(5)) {
      case 0:
        text.erase(from, to - from);
        break;
      case 1:
        text.insert(from, part);
        break;
      case 2:
        text.erase(from, to - from);
        text.insert(border(), part);
        break;
      case 3:
        text.insert(from, std::string("\"}]>\n<|`\\").substr(below(8), 1));
        break;
      default:
        text.insert(from, other);
    }
  }
  return text;
}

TEST(ParserConformance, ThePiecesOfABrokenTextDoNotMatter) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same in each run
  const std::vector<Case> cases = ReadCases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Case read = cases[i];
    const std::string& other = cases[(i + 1) % cases.size()].raw;
    for (int n = 0; n < 40; ++n) {
      read.raw = Broken(cases[i].raw, other, random);
      const bool cut = n % 3 == 0;
      const Result whole = Parse(read, {read.raw}, cut);
      ASSERT_EQ(Parse(read, Characters(read.raw), cut), whole) << read.format->name << read.raw;
      const std::vector<std::size_t> borders = Borders(read.raw);
      const std::size_t at = borders[random() % borders.size()];
      ASSERT_EQ(Parse(read, {read.raw.substr(0, at), read.raw.substr(at)}, cut), whole)
          << read.format->name << " at " << at << ": " << read.raw;
      for (const Call& call : whole.calls) {
        EXPECT_TRUE(std::ranges::any_of(read.tools, [&](const chat::ToolSpec& tool) {
          return tool.name == call.name;
        })) << call.name;
      }
    }
  }
}

TEST(ParserConformance, EndTokensAreDroppedWhereverATextEnds) {
  const chat::ToolSpec tool{.name = "f", .parameters = Json::object()};
  const auto parse = [&](const char* format, const std::string& text) {
    const Case read{.tools = {tool}, .raw = text, .format = FindFormat(format)};
    const Result whole = Parse(read, {text}, false);
    EXPECT_EQ(Parse(read, Characters(text), false), whole) << text;
    return whole;
  };
  EXPECT_EQ(parse("hermes", "Hi.<|im_end|>\n<|im_end|>").content, "Hi.");
  EXPECT_EQ(parse("hermes", "<think>\nNever closed<|im_end|>").reasoning, "Never closed");
  EXPECT_EQ(parse("deepseek_r1", "<think>So<\uFF5Cend\u2581of\u2581sentence\uFF5C>").reasoning,
            "So");
  const Result cut = parse("hermes", R"(<tool_call>{"name": "f", "arguments": {"a": "b<|im_end|>)");
  ASSERT_EQ(cut.calls.size(), 1U);
  EXPECT_EQ(cut.calls[0].arguments, R"({"a": "b)");
  // Elsewhere it is text that somebody wrote.
  EXPECT_EQ(parse("hermes", "<|im_end|> ends a turn").content, "<|im_end|> ends a turn");
  const Result quoted =
      parse("hermes", R"(<tool_call>{"name": "f", "arguments": {"a": "<|im_end|>"}})");
  ASSERT_EQ(quoted.calls.size(), 1U);
  EXPECT_EQ(quoted.calls[0].arguments, R"({"a": "<|im_end|>"})");
}

// Without the wrapper, in reasoning that nobody closed: the reader goes back to its opener.
TEST(ParserConformance, ABareCallEndsAnOpenThought) {
  const Case read{.tools = {{.name = "f", .parameters = Json::object()}},
                  .raw = "<think>So\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>",
                  .format = FindFormat("qwen3_coder")};
  const Result whole = Parse(read, {read.raw}, false);
  EXPECT_EQ(Parse(read, Characters(read.raw), false), whole);
  EXPECT_EQ(whole.reasoning, "So");
  ASSERT_EQ(whole.calls.size(), 1U);
  EXPECT_EQ(whole.calls[0].arguments, R"({"a": "1"})");
}

TEST(ParserConformance, HarmonysMarkersAreNeverText) {
  for (const char* text :
       {"<|message|>analysis<|channel|>Thinking", "\t<|channel|>f",
        "<|start|>assistant<|channel|>final<|message|>One<|channel|> two<|constrain|><|return|>",
        "<|start|><|start|><|start|>assistant", "Hello<|start|>assistnt<|channel|>final now",
        "<|channel|>commentary to=fe|>{\"city\": 1}"}) {
    const Case read{.raw = text, .format = FindFormat("harmony")};
    const Result whole = Parse(read, {text}, false);
    EXPECT_EQ(Parse(read, Characters(text), false), whole) << text;
    EXPECT_EQ(whole.content.find("<|"), std::string::npos) << whole;
  }
  const Case read{.raw = "Hello<|start|>assistnt<|channel|>final now",
                  .format = FindFormat("harmony")};
  EXPECT_EQ(Parse(read, {read.raw}, false).content, "Helloassistntfinal now");
}

// V3's published template shows no tools, so the prompt's text does (chat/tools_as_text.h).
TEST(ParserConformance, DeepseekMayCallAsThePromptSays) {
  const std::string text =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const Case read{.tools = {{.name = "f", .parameters = Json::object()}},
                  .raw = text,
                  .format = FindFormat("deepseek_v3")};
  const Result whole = Parse(read, {text}, false);
  EXPECT_EQ(Parse(read, Characters(text), false), whole);
  ASSERT_EQ(whole.calls.size(), 1U);
  EXPECT_EQ(whole.calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(whole.content, "");
}

// Where parsing stops to be a call, the text is content to the last character.
TEST(ParserConformance, WithoutToolsEverythingIsText) {
  for (Case& read : ReadCases()) {
    read.tools.clear();
    const Result result = Parse(read, {read.raw}, false);
    EXPECT_TRUE(result.calls.empty()) << read.line["id"];
  }
}

// How much of a reply without tags is taken for reasoning, and how much for the answer.
struct Split {
  std::string reasoning;
  std::string content;
};
Split ReadTagless(const std::string& text) {
  Split split;
  const EventSink take = [&](const chat::StreamEvent& event) {
    if (const auto* reasoning = std::get_if<chat::ReasoningDelta>(&event)) {
      split.reasoning += reasoning->text;
    } else if (const auto* content = std::get_if<chat::TextDelta>(&event)) {
      split.content += content->text;
    }
  };
  const auto parser = FindFormat("minimax_tagless")->make({});
  parser->Feed(text, take);
  parser->Finish(/*cut=*/false, take);
  return split;
}

TEST(MinimaxTagless, HardlyAnyOpeningIsTakenForTheOtherKind) {
  const std::vector<std::string> answers = {
      "The answer is 42.",      "Here is what you asked for:",    "Sure, this is how it works.",
      "Hello! How can I help?", "1. Open the file.\n2. Read it.", "```python\nprint(1)\n```"};
  std::ifstream file(std::string(EMBERBANK_SOURCE_DIR) + "/tests/fixtures/minimax_openings.jsonl");
  int n_reasoning = 0;
  int n_answers = 0;
  std::vector<std::string> leaks;
  std::vector<std::string> misfires;
  for (std::string line; std::getline(file, line);) {
    const Json opening = Json::parse(line);
    const auto text = opening["text"].get<std::string>();
    const std::string& answer = answers[static_cast<std::size_t>(n_reasoning) % answers.size()];
    const Split split = ReadTagless(text + "\n\n" + answer);
    if (opening["label"] == "reasoning") {
      ++n_reasoning;
      if (split.content != answer) {
        leaks.push_back(text);
      }
    } else {
      ++n_answers;
      if (!split.reasoning.empty()) {
        misfires.push_back(text);
      }
    }
  }
  EXPECT_GE(n_reasoning, 200);
  EXPECT_GE(n_answers, 60);
  EXPECT_LE(leaks.size() * 50, static_cast<std::size_t>(n_reasoning)) << Json(leaks);
  EXPECT_LE(misfires.size() * 50, static_cast<std::size_t>(n_answers)) << Json(misfires);
}

TEST(ParserRegistry, NamesAreUnique) {
  std::vector<std::string_view> names;
  for (const ParserFormat* format : All()) {
    names.push_back(format->name);
    names.insert(names.end(), format->aliases.begin(), format->aliases.end());
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  EXPECT_EQ(twice, names.end()) << *twice;
}

TEST(ParserRegistry, ATemplateHasExactlyItsFormat) {
  const std::filesystem::path folder =
      std::string(EMBERBANK_SOURCE_DIR) + "/tests/fixtures/templates";
  std::ifstream list(folder / "formats.json");
  Json expected = Json::parse(list);
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".jinja") {
      continue;
    }
    const std::string name = file.path().stem();
    ASSERT_TRUE(expected.contains(name)) << name << " is not in formats.json";
    std::ifstream in(file.path());
    const std::string source{std::istreambuf_iterator<char>(in), {}};
    Json matches = Json::array();
    for (const ParserFormat* format : All()) {
      if (format->matches(source)) {
        matches.push_back(format->name);
      }
    }
    const Json wanted = expected[name].is_null() ? Json::array() : Json::array({expected[name]});
    EXPECT_EQ(matches, wanted) << name;
    expected.erase(name);
  }
  EXPECT_TRUE(expected.empty()) << expected;
}

}  // namespace
}  // namespace parsers
