#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/generate.h"

namespace api {

// How a text completion request wants its answer.
struct CompletionForm {
  int n = 1;
  bool logprobs = false;
  bool include_usage = false;
  bool return_token_ids = false;
  std::vector<std::string> echoes = {};               // by prompt; empty: no echo
  std::vector<std::vector<TokenId>> prompt_ids = {};  // by prompt, for return_token_ids
};

// The parts that streams and whole answers share: turns an event into a choice object, whose
// `text` is what the event adds.
class CompletionFrame {
 public:
  CompletionFrame(const ServedModel& model, CompletionForm form);

  [[nodiscard]] Json Choice(const ChoiceEvent& event);
  [[nodiscard]] Json Envelope(Json choices) const;
  [[nodiscard]] const CompletionForm& form() const { return form_; }
  [[nodiscard]] std::size_t n_choices() const { return started_.size(); }

 private:
  const ServedModel& model_;
  CompletionForm form_;
  std::string id_;
  std::int64_t created_;
  std::vector<bool> started_;               // by choice
  std::vector<std::int64_t> text_offsets_;  // by choice, in characters
};

class StreamedCompletion final : public GenerationSink {
 public:
  StreamedCompletion(CompletionFrame frame, Reply& reply);

  void OnEvent(const ChoiceEvent& event) override;
  void OnWaiting() override;
  void End(const Usage& usage);
  [[nodiscard]] bool begun() const { return begun_; }

 private:
  void Begin();
  void SendHeld(const Usage* usage);

  CompletionFrame frame_;
  Reply& reply_;
  bool begun_ = false;
  // The last chunk waits for the usage, whose timings it carries.
  std::optional<Json> held_;
};

class WholeCompletion final : public GenerationSink {
 public:
  explicit WholeCompletion(CompletionFrame frame);

  void OnEvent(const ChoiceEvent& event) override;
  void OnWaiting() override {}
  [[nodiscard]] Json Answer(const Usage& usage) const;

 private:
  CompletionFrame frame_;
  std::vector<Json> choices_;
};

}  // namespace api
