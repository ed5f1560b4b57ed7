#pragma once

#include <optional>
#include <string>

#include "api/generate.h"

namespace api {

// How a /v1/messages request wants its answer.
struct MessageForm {
  bool omits_thinking = false;       // thinking.display "omitted": the signature carries the text
  bool counts_cache_writes = false;  // the request has cache_control marks
};

struct MessageFrame {
  const ServedModel& model;
  MessageForm form;
  std::string id;
};

// The content blocks of one reply and their lifecycle: one is open at a time.
//
//   none -> text | thinking | tool_use -> none -> ...
class MessageBlocks : public GenerationSink {
 public:
  explicit MessageBlocks(MessageFrame frame) : frame_(std::move(frame)) {}

  void OnPrompt(const Usage& usage) override;
  void OnEvent(const ChoiceEvent& event) override;

 protected:
  // `usage`: with the prompt's figures only.
  virtual void Begin(const Usage& usage) = 0;
  virtual void OpenBlock(const Json& block) = 0;
  virtual void AddDelta(const Json& delta) = 0;
  virtual void CloseBlock() = 0;

  [[nodiscard]] Json UsageJson(const Usage& usage) const;
  [[nodiscard]] Json MessageJson(const Usage& usage, Json content) const;
  // stop_reason and stop_sequence.
  [[nodiscard]] Json StopJson() const;
  [[nodiscard]] const MessageFrame& frame() const { return frame_; }

 private:
  enum class Block { kNone, kText, kThinking, kToolUse };

  void Take(const chat::StreamEvent& delta);
  void Enter(Block kind, const Json& block);
  void Leave();

  MessageFrame frame_;
  Block open_ = Block::kNone;
  std::string thinking_;  // of the open block
  bool has_call_ = false;
  std::optional<scheduler::FinishReason> finish_;
  std::optional<std::string> stop_text_;
};

// Writes events as they come; a ping a second before the first.
class StreamedMessage final : public MessageBlocks {
 public:
  StreamedMessage(MessageFrame frame, Reply& reply)
      : MessageBlocks(std::move(frame)), reply_(reply) {}

  void OnWaiting() override;
  void End(const Usage& usage);
  [[nodiscard]] bool begun() const { return begun_; }

 private:
  void Begin(const Usage& usage) override;
  void OpenBlock(const Json& block) override;
  void AddDelta(const Json& delta) override;
  void CloseBlock() override;
  void Send(const Json& event);

  Reply& reply_;
  bool begun_ = false;
  int index_ = 0;  // of the open or next block
};

// Collects the same blocks into one answer.
class WholeMessage final : public MessageBlocks {
 public:
  using MessageBlocks::MessageBlocks;

  void OnWaiting() override {}
  [[nodiscard]] Json Answer(const Usage& usage) const;

 private:
  void Begin(const Usage& /*usage*/) override {}
  void OpenBlock(const Json& block) override;
  void AddDelta(const Json& delta) override;
  void CloseBlock() override;

  Json content_ = Json::array();
  std::string input_json_;  // of the open tool_use
};

}  // namespace api
