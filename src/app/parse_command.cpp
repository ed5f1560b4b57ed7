#include "app/parse_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/openai_tools.h"
#include "api/overloaded.h"
#include "app/print.h"
#include "app/script_file.h"
#include "base/json.h"
#include "chat/utf8.h"
#include "parsers/parser.h"

namespace app {
namespace {

// One line of input.
struct ParseCase {
  Json id;
  const parsers::ParserFormat* format = nullptr;
  std::vector<chat::ToolSpec> tools;
  std::string prompt_tail;
  std::vector<std::string> chunks;
  bool cut = false;
};

// `raw` is one chunk.
Result<std::vector<std::string>> ReadText(const Json& line) {
  const Json raw = line.value("raw", Json());
  const bool in_chunks = line.value("chunks", Json()).is_array() || line.contains("chunks_hex");
  if (raw.is_string() && !in_chunks) {
    return std::vector<std::string>{raw.get<std::string>()};
  }
  return ReadChunks(line);
}

Result<ParseCase> ReadCase(const std::string& text, const std::string& format) {
  const Result<Json> line = ParseJson(text);
  if (!line || !line->is_object()) {
    return Fail(ErrorCode::kInvalidRequest, line ? "must be an object." : line.error().message);
  }
  ParseCase read;
  api::FieldReader fields(*line);
  read.id = line->value("id", Json());
  const std::string name = format.empty() ? fields.String("format").value_or("") : format;
  read.format = parsers::FindFormat(name);
  if (read.format == nullptr) {
    fields.FailField("format", fmt::format("names no wire format that is known, got \"{}\".",
                                           name.substr(0, 40)));
  }
  read.prompt_tail = fields.String("prompt_tail").value_or("");
  read.cut = fields.String("finish") == "length";
  Result<api::OfferedTools> offered = api::ReadTools(fields);
  if (!offered) {
    return Fail(offered.error());
  }
  read.tools = std::move(offered->tools);
  Result<std::vector<std::string>> chunks = ReadText(*line);
  if (!chunks) {
    return Fail(chunks.error());
  }
  read.chunks = std::move(*chunks);
  if (fields.error()) {
    return Fail(*fields.error());
  }
  return read;
}

// Joins events to the message.
struct Message {
  std::string content{};
  std::string reasoning{};
  Json tool_calls = Json::array();
  Json events = Json::array();

  void Take(const chat::StreamEvent& event) {
    std::visit(api::Overloaded{
                   [&](const chat::TextDelta& d) {
                     content += d.text;
                     events.push_back({{"type", "text"}, {"text", d.text}});
                   },
                   [&](const chat::ReasoningDelta& d) {
                     reasoning += d.text;
                     events.push_back({{"type", "reasoning"}, {"text", d.text}});
                   },
                   [&](const chat::ToolCallBegin& d) {
                     tool_calls.push_back({{"id", d.id}, {"name", d.name}, {"arguments", ""}});
                     events.push_back({{"type", "tool_call_begin"},
                                       {"index", d.index},
                                       {"id", d.id},
                                       {"name", d.name}});
                   },
                   [&](const chat::ToolArgumentsDelta& d) {
                     tool_calls.at(static_cast<std::size_t>(d.index))["arguments"]
                         .get_ref<std::string&>() += d.fragment;
                     events.push_back(
                         {{"type", "arguments"}, {"index", d.index}, {"fragment", d.fragment}});
                   },
                   [&](const chat::ToolCallEnd& d) {
                     events.push_back({{"type", "tool_call_end"}, {"index", d.index}});
                   },
               },
               event);
  }
};

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json Run(const ParseCase& read) {
  const auto parser = read.format->make({.tools = read.tools, .prompt_tail = read.prompt_tail});
  Message message;
  const parsers::EventSink take = [&](const chat::StreamEvent& event) { message.Take(event); };
  std::string held;  // the beginning of a character
  for (const std::string& chunk : read.chunks) {
    held += chunk;
    parser->Feed(chat::TakeUtf8(held, /*at_end=*/false), take);
  }
  parser->Feed(chat::TakeUtf8(held, /*at_end=*/true), take);
  parser->Finish(read.cut, take);
  const bool has_call = !message.tool_calls.empty();
  for (Json& call : message.tool_calls) {
    const std::string text = call["arguments"];
    if (Result<Json> arguments = ParseJson(text); arguments && arguments->is_object()) {
      call["arguments"] = std::move(*arguments);
    }
  }
  const bool has_more = has_call || !message.reasoning.empty();
  return {{"id", read.id},
          {"content", has_more ? OrNull(message.content) : Json(message.content)},
          {"reasoning_content", OrNull(message.reasoning)},
          {"tool_calls", std::move(message.tool_calls)},
          {"finish_reason", read.cut   ? "length"
                            : has_call ? "tool_calls"
                                       : "stop"},
          {"events", std::move(message.events)}};
}

}  // namespace

int RunParseCommand(const ParseOptions& options) {
  int number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const Result<ParseCase> read = ReadCase(line, options.format);
    if (!read) {
      PrintTo(stderr, "emberbank: line {}: {}\n", number, read.error().message);
      return 1;
    }
    PrintTo(stdout, "{}\n", DumpJson(Run(*read)));
  }
  return 0;
}

}  // namespace app
