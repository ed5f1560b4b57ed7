#include "api/thinking_budget.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/generation_fields.h"

namespace api {
namespace {

using parsers::ReasoningTags;

constexpr Range kBudget{.min = -1};

struct Effort {
  std::string_view name;
  int budget;
};
// Others ("high", "max") have no limit. A short thought takes some hundred tokens, the usual one of
// a reasoning model a few thousand.
constexpr std::array<Effort, 4> kEfforts = {
    {{"none", 0}, {"minimal", 256}, {"low", 1024}, {"medium", 8192}}};

std::optional<int> BudgetOfEffort(std::string_view name, const ServedModel& model) {
  const bool is_told = model.chat_template->source().find("reasoning_effort") != std::string::npos;
  for (const Effort& effort : kEfforts) {
    if (effort.name == name && (!is_told || effort.budget == 0)) {
      return effort.budget;
    }
  }
  return std::nullopt;
}

// The field of an object inside the body; nothing where it is something else.
template <class Read>
auto Inside(FieldReader& fields, const char* name, const Read& read)
    -> decltype(read(std::declval<FieldReader&>())) {
  const Json* object = fields.Find(name);
  if (object == nullptr || !object->is_object()) {
    return std::nullopt;
  }
  FieldReader inner(*object, std::string(name) + ".");
  auto value = read(inner);
  if (inner.error()) {
    fields.FailWith(*inner.error());
  }
  return value;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

class ThinkingBudget final : public TokenConstraint {
 public:
  ThinkingBudget(std::unique_ptr<TokenConstraint> inner, int budget, const ServedModel& model,
                 const GenerationInput& input)
      : inner_(std::move(inner)),
        budget_(budget),
        tokenizer_(model.tokenizer),
        all_tags_(model.parser_format->reasoning),
        words_((static_cast<std::size_t>(model.scheduler->facts().vocab_size) + 31) / 32) {
    for (const ReasoningTags& tags : all_tags_) {
      if (Trimmed(input.prompt_tail).ends_with(tags.opener)) {
        tags_ = &tags;
        state_ = State::kInside;
      }
    }
  }

  Result<std::span<const std::uint32_t>> AllowedTokens() override {
    if (state_ == State::kInside && used_ >= budget_) {
      if (Result<void> closing = BeginClosing(); !closing) {
        return Fail(closing.error());
      }
    }
    if (state_ == State::kClosing) {
      words_.assign(words_.size(), 0);
      const auto id = static_cast<std::size_t>(closing_[closed_]);
      words_.at(id / 32) |= 1U << (id % 32);
      return std::span<const std::uint32_t>(words_);
    }
    return inner_ == nullptr ? std::span<const std::uint32_t>() : inner_->AllowedTokens();
  }

  Result<void> Accept(TokenId token) override {
    Follow(token);
    return inner_ == nullptr ? Result<void>() : inner_->Accept(token);
  }

 private:
  // Whether the reply reasons, as of its last token.
  enum class State { kBefore, kInside, kClosing, kOutside };

  Result<void> BeginClosing() {
    // <think> stands on lines of its own.
    const std::string text =
        tags_->closer == "</think>" ? "\n</think>\n\n" : std::string(tags_->closer);
    Result<std::vector<TokenId>> tokens =
        tokenizer_->Encode(text, chat::Tokenizer::SpecialTokens::kParse, /*add_special=*/false);
    if (!tokens) {
      return Fail(tokens.error());
    }
    closing_ = std::move(*tokens);
    closed_ = 0;
    state_ = State::kClosing;
    return {};
  }

  void Follow(TokenId token) {
    if (state_ == State::kClosing) {
      if (++closed_ == closing_.size()) {
        Leave();
      }
      return;
    }
    tail_ += tokenizer_->TokenBytes(token);
    if (state_ == State::kInside) {
      ++used_;
      if (tail_.find(tags_->closer) != std::string::npos) {
        Leave();
      } else if (tail_.size() > tags_->closer.size()) {
        tail_.erase(0, tail_.size() - tags_->closer.size());
      }
    } else if (state_ == State::kBefore) {
      Enter();
    }
  }

  // Another block may follow (harmony).
  void Leave() {
    state_ = State::kBefore;
    tail_.clear();
  }

  void Enter() {
    const std::string_view text = Trimmed(tail_);
    bool may_come = text.empty();
    for (const ReasoningTags& tags : all_tags_) {
      if (text.starts_with(tags.opener)) {
        tags_ = &tags;
        state_ = State::kInside;
        tail_.clear();
        return;
      }
      may_come = may_come || tags.opener.starts_with(text);
    }
    state_ = may_come ? State::kBefore : State::kOutside;
  }

  std::unique_ptr<TokenConstraint> inner_;  // may be null
  int budget_;
  std::shared_ptr<const chat::Tokenizer> tokenizer_;  // shared: the model's
  std::span<const ReasoningTags> all_tags_;
  std::vector<std::uint32_t> words_;  // the mask while closing
  State state_ = State::kBefore;
  const ReasoningTags* tags_ = nullptr;  // of the block
  int used_ = 0;                         // tokens of reasoning so far
  std::string tail_;                     // the end of the text
  std::vector<TokenId> closing_;
  std::size_t closed_ = 0;  // of them written
};

}  // namespace

std::optional<int> ReadThinkingBudget(FieldReader& fields, const ServedModel& model) {
  std::optional<std::int64_t> budget;
  for (const char* name : {"reasoning_max_tokens", "thinking_budget", "thinking_token_budget"}) {
    const auto value = fields.Integer(name, kBudget);
    budget = budget ? budget : value;
  }
  const auto in_reasoning = Inside(
      fields, "reasoning", [](FieldReader& inner) { return inner.Integer("max_tokens", kBudget); });
  const auto in_thinking = Inside(fields, "thinking", [](FieldReader& inner) {
    return inner.Integer("budget_tokens", kBudget);
  });
  budget = budget ? budget : in_reasoning ? in_reasoning : in_thinking;
  if (budget) {
    return *budget < 0 ? std::nullopt : std::optional(ToInt(*budget));
  }
  const auto effort_of = [](FieldReader& inner) { return inner.String("effort"); };
  std::optional<std::string> effort = fields.String("reasoning_effort");
  for (const char* holder : {"reasoning", "output_config"}) {
    const auto inner = Inside(fields, holder, effort_of);
    effort = effort ? effort : inner;
  }
  return effort ? BudgetOfEffort(*effort, model) : std::nullopt;
}

std::unique_ptr<TokenConstraint> WithThinkingBudget(std::unique_ptr<TokenConstraint> inner,
                                                    int budget, const ServedModel& model,
                                                    const GenerationInput& input) {
  return std::make_unique<ThinkingBudget>(std::move(inner), budget, model, input);
}

}  // namespace api
