#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/generate.h"

namespace api {

// How a chat request wants its answer.
struct ChatForm {
  int n = 1;
  bool logprobs = false;
  bool include_usage = false;  // streams only; whole answers always have it
};

// The parts that streams and whole answers share.
struct ChatFrame {
  const ServedModel& model;
  ChatForm form;
  std::string id;
  std::int64_t created = 0;
};

// Writes chunks as they come.
class StreamedChat final : public GenerationSink {
 public:
  StreamedChat(ChatFrame frame, Reply& reply);

  void OnEvent(const ChoiceEvent& event) override;
  void OnWaiting() override;
  // What follows the last event: the closing chunk, usage, [DONE].
  void End(const Usage& usage);
  [[nodiscard]] bool begun() const { return begun_; }

 private:
  void Begin();
  void SendChunk(Json choice);
  void SendClosing(const Usage* usage);
  [[nodiscard]] Json Chunk(Json choices) const;

  ChatFrame frame_;
  Reply& reply_;
  bool begun_ = false;
  std::vector<bool> has_call_;  // by choice
  // The last closing chunk waits for the usage, whose timings it carries.
  std::optional<Json> closing_;
};

// Collects the same events into one answer.
class WholeChat final : public GenerationSink {
 public:
  explicit WholeChat(ChatFrame frame);

  void OnEvent(const ChoiceEvent& event) override;
  void OnWaiting() override {}
  [[nodiscard]] Json Answer(const Usage& usage) const;

 private:
  struct Choice {
    std::string content;
    std::string reasoning;
    Json tool_calls = Json::array();
    Json logprobs = Json::array();
    std::optional<scheduler::FinishReason> finish;
  };
  void Take(Choice& choice, const chat::StreamEvent& delta);

  ChatFrame frame_;
  std::vector<Choice> choices_;
};

}  // namespace api
