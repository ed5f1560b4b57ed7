#include <algorithm>
#include <array>
#include <string>

#include "parsers/shared_minimax.h"

// MiniMax models that think without tags: the reasoning is the beginning of the message, if it
// plans about the user or the task and something that is plainly the answer follows.
namespace parsers::minimax_tagless {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kToolOpener = "<minimax:tool_call>";
// Enough of a beginning to know what it is.
constexpr std::size_t kOpeningBytes = 96;

// Beginnings of a plan, lower case.
constexpr std::array kPlans = {
    "the user wants"sv,
    "the user asks"sv,
    "the user asked"sv,
    "the user is asking"sv,
    "the user is requesting"sv,
    "the user needs"sv,
    "the user would like"sv,
    "the user said"sv,
    "the user says"sv,
    "the user has asked"sv,
    "the user has provided"sv,
    "the user has given"sv,
    "the user just"sv,
    "the user provided"sv,
    "the user requests"sv,
    "the user requested"sv,
    "the user wrote"sv,
    "the user is looking"sv,
    "the user is trying"sv,
    "the user is greeting"sv,
    "the user is saying"sv,
    "the user gave"sv,
    "the user sent"sv,
    "the user seems"sv,
    "the user mentions"sv,
    "the user mentioned"sv,
    "the user's question"sv,
    "the user's request"sv,
    "the user's message"sv,
    "the question asks"sv,
    "the question is asking"sv,
    "the task is to"sv,
    "user wants"sv,
    "user asks"sv,
    "user is asking"sv,
    "user needs"sv,
    "they want"sv,
    "they are asking"sv,
    "they ask"sv,
    "let me think"sv,
    "let me analyze"sv,
    "let me analyse"sv,
    "let me figure"sv,
    "let me consider"sv,
    "let me break"sv,
    "let me work"sv,
    "let me understand"sv,
    "let me recall"sv,
    "let me start by understanding"sv,
    "let me look at what"sv,
    "let me see what the user"sv,
    "okay, the user"sv,
    "ok, the user"sv,
    "okay, so the user"sv,
    "ok, so the user"sv,
    "so the user"sv,
    "alright, the user"sv,
    "hmm, the user"sv,
    "hmm, let me"sv,
    "okay, let me think"sv,
    "okay, let's think"sv,
    "alright, let me think"sv,
    "we need to answer"sv,
    "we need to respond"sv,
    "we need to produce"sv,
    "we need to figure"sv,
    "i need to figure"sv,
    "i need to answer"sv,
    "i need to respond"sv,
    "i need to think"sv,
    "i need to explain to the user"sv,
    "i need to provide the user"sv,
    "i need to determine"sv,
    "i need to call"sv,
    "i need to use the"sv,
    "i should answer"sv,
    "i should respond"sv,
    "i should call"sv,
    "i should use the"sv,
    "i should check"sv,
    "i should provide the user"sv,
    "looking at the user"sv,
    "looking at this request"sv,
    "based on the user's request"sv,
    "first, let me think"sv,
    "first, i need to understand"sv,
    "now i need to"sv,
    "the request is"sv,
    "this request asks"sv,
    "this is a question about what the user"sv,
};

constexpr std::array kChinesePlans = {
    "用户想"sv,     "用户要"sv,     "用户问"sv,       "用户希望"sv,         "用户需要"sv,
    "用户询问"sv,   "用户请求"sv,   "用户让"sv,       "用户说"sv,           "用户在问"sv,
    "用户正在"sv,   "用户给"sv,     "用户发"sv,       "用户提出"sv,         "用户提供"sv,
    "用户的问题"sv, "用户的请求"sv, "用户只是"sv,     "用户似乎"sv,         "用户打招呼"sv,
    "用户用"sv,     "让我想"sv,     "让我思考"sv,     "让我分析"sv,         "让我看看用户"sv,
    "让我理解"sv,   "让我来分析"sv, "让我先分析"sv,   "我需要先"sv,         "我需要回答"sv,
    "我需要理解"sv, "我需要分析"sv, "我需要给用户"sv, "我应该回答"sv,       "我应该先"sv,
    "好的，用户"sv, "嗯，用户"sv,   "首先，用户"sv,   "首先，我需要理解"sv, "这个问题问的是"sv,
    "题目要求"sv,   "好，用户"sv,   "那么用户"sv,     "现在用户"sv,
};

// Beginnings of a paragraph that is the answer, lower case.
constexpr std::array kAnswers = {
    "the answer is"sv,
    "answer:"sv,
    "final answer"sv,
    "here is"sv,
    "here's"sv,
    "here are"sv,
    "**"sv,
    "#"sv,
    "```"sv,
    "1. "sv,
    "- "sv,
    "* "sv,
    "sure"sv,
    "yes,"sv,
    "no,"sv,
    "hello"sv,
    "hi"sv,
    "certainly"sv,
    "of course"sv,
    "in short"sv,
    "to summarize"sv,
    "| "sv,
    "答案"sv,
    "以下是"sv,
    "下面是"sv,
    "这是"sv,
    "当然"sv,
    "好的"sv,
    "你好"sv,
    "您好"sv,
    "总之"sv,
    "回答："sv,
    "是的"sv,
    "不是"sv,
};

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

template <std::size_t kSize>
bool BeginsWithOne(std::string_view text, const std::array<std::string_view, kSize>& beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](std::string_view begin) { return text.starts_with(begin); });
}

bool IsPlan(std::string_view opening) {
  const std::string lower = Lower(opening);
  return BeginsWithOne(lower, kPlans) || BeginsWithOne(lower, kChinesePlans);
}

// Where the answer begins in a text that began with a plan; npos: nowhere yet.
Task<std::size_t> FindAnswer(CallContext& context) {
  Scanner& in = context.in;
  constexpr std::size_t kNowhere = std::string_view::npos;
  std::size_t from = 0;
  while (true) {
    const std::size_t blank = co_await in.Find("\n\n", from);
    const std::size_t call = in.Peek(in.available()).find(kToolOpener, from);
    if (call < blank) {
      co_return call;
    }
    if (blank == kNowhere) {
      co_return kNowhere;
    }
    std::size_t begin = blank + 2;
    while (co_await in.Need(begin + 1) && IsSpace(in[begin])) {
      ++begin;
    }
    (void)co_await in.Need(begin + kToolOpener.size());
    const std::string paragraph = Lower(in.Peek(begin + 32).substr(begin));
    if (paragraph.starts_with(kToolOpener) || BeginsWithOne(paragraph, kAnswers)) {
      co_return begin;
    }
    from = begin;
  }
}

Task<bool> ReadTagless(CallContext& context, const Syntax& syntax) {
  Scanner& in = context.in;
  const std::size_t mark = in.Mark();
  co_await in.SkipSpace();
  const bool tagged = co_await in.Sees("<think>");
  const bool opened = context.options.prompt_tail.find("<think>") != std::string_view::npos;
  if (!tagged && !opened) {
    (void)co_await in.Need(kOpeningBytes);
    if (IsPlan(in.Peek(kOpeningBytes))) {
      const std::size_t answer = co_await FindAnswer(context);
      if (answer != std::string_view::npos) {
        context.out.Reasoning(in.Take(answer));
        context.out.EndReasoning();
        co_return co_await ReadContent(context, syntax);
      }
    }
  }
  in.Rewind(mark);
  co_return co_await ReadMessage(context, syntax);
}

std::unique_ptr<StreamParser> Make(const ParserOptions& options) {
  return MakeMachine(MinimaxSyntax(), options, &ReadTagless);
}

// Chosen by name only.
bool Matches(std::string_view /*chat_template*/) { return false; }

constexpr std::string_view kAliases[] = {"reasoning_minimax_tagless", "minimax_m2_append_think"};

}  // namespace

extern constinit const ParserFormat kFormat{.name = "minimax_tagless",
                                            .aliases = kAliases,
                                            .markers = kMinimaxMarkers,
                                            .matches = &Matches,
                                            .make = &Make,
                                            .calls = &MinimaxCalls,
                                            .reasoning = kThinkTags};

}  // namespace parsers::minimax_tagless
