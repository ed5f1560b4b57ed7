#include "api/parsed_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <variant>

#include "api/overloaded.h"
#include "api/served_model.h"
#include "base/json.h"

namespace api {
namespace {

// One form for each value: a whole number below 2^53 is an integer, a larger one that a double has
// exactly is a double.
Json CanonicalNumber(const Json& number) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const auto value = number.get<double>();
  if (std::abs(value) < kExact) {
    return std::trunc(value) == value ? Json(static_cast<std::int64_t>(value)) : Json(value);
  }
  const bool is_exact =
      number.is_number_float() || DumpJson(number) == fmt::format("{:.0f}", value);
  return is_exact ? Json(value) : number;
}

Json Canonical(const Json& value) {
  if (value.is_object()) {
    std::vector<std::pair<std::string, const Json*>> members;
    for (const auto& [key, member] : value.items()) {
      members.emplace_back(key, &member);
    }
    std::ranges::sort(members, {}, [](const auto& member) { return member.first; });
    Json::object_t sorted;
    for (const auto& [key, member] : members) {
      sorted.emplace_back(key, Canonical(*member));
    }
    return sorted;
  }
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) {
      list.push_back(Canonical(item));
    }
    return list;
  }
  return value.is_number() ? CanonicalNumber(value) : value;
}

}  // namespace

void ParsedReply::Take(const chat::StreamEvent& event) {
  std::visit(
      Overloaded{[&](const chat::TextDelta& d) { content += d.text; },
                 [&](const chat::ReasoningDelta& d) { reasoning += d.text; },
                 [&](const chat::ToolCallBegin& d) {
                   calls.push_back({.id = d.id, .name = d.name, .arguments = ""});
                 },
                 [&](const chat::ToolArgumentsDelta& d) {
                   calls.at(static_cast<std::size_t>(d.index)).arguments.get_ref<std::string&>() +=
                       d.fragment;
                 },
                 [](const chat::ToolCallEnd&) {}},
      event);
}

std::string CanonicalCalls(const std::vector<chat::ToolCall>& calls) {
  Json list = Json::array();
  for (const chat::ToolCall& call : calls) {
    list.push_back(call.name);
    if (!call.arguments.is_string()) {
      list.push_back(Canonical(call.arguments));
      continue;
    }
    const Result<Json> parsed = ParseClientJson(call.arguments.get_ref<const std::string&>());
    list.push_back(parsed ? Canonical(*parsed) : call.arguments);
  }
  return DumpJson(list);
}

bool SameMeaning(const ParsedReply& one, const ParsedReply& other) {
  return one.content == other.content && one.reasoning == other.reasoning &&
         CanonicalCalls(one.calls) == CanonicalCalls(other.calls);
}

std::unique_ptr<parsers::StreamParser> MakeParser(const ServedModel& model,
                                                  const std::vector<chat::ToolSpec>& tools,
                                                  std::string_view prompt_tail) {
  return model.parser_format->make({.tools = tools,
                                    .prompt_tail = model.scripted_prompt_tail.empty()
                                                       ? prompt_tail
                                                       : model.scripted_prompt_tail});
}

}  // namespace api
