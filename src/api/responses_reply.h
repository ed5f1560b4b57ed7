#pragma once

#include <optional>
#include <string>

#include "api/generate.h"
#include "api/responses_input.h"

namespace api {

// What a /v1/responses answer is made of besides the generation.
struct ResponseFrame {
  const ServedModel& model;
  // The response object without output, status and usage: id, model and the request's own fields.
  Json base;
  const ResponsesTools& tools;
  bool shows_summary = false;    // reasoning.summary: the reasoning also as its summary
  bool seals_reasoning = false;  // include: reasoning.encrypted_content
};

// The output items of one reply and their lifecycle: one is open at a time.
//
//   none -> message | reasoning | call -> none -> ...
//
// Events are made once, here; a whole answer is the last of them.
class ResponseItems : public GenerationSink {
 public:
  explicit ResponseItems(ResponseFrame frame) : frame_(std::move(frame)) {}

  void OnPrompt(const Usage& usage) override;
  void OnEvent(const ChoiceEvent& event) override;
  // The finished response object.
  [[nodiscard]] Json Answer(const Usage& usage);
  // The stream's last event: the answer, or why there is none.
  void End(Json answer);
  void Fail(const Error& error);

 protected:
  // response.created and response.in_progress, once.
  void Begin();
  virtual void Emit(Json event) = 0;

 private:
  enum class Item { kNone, kMessage, kReasoning, kCall };

  void Take(const chat::StreamEvent& delta);
  void Enter(Item kind);
  void OpenCall(const chat::ToolCallBegin& call);
  void Leave();
  void LeaveMessage();
  void LeaveReasoning();
  void LeaveCall();
  void Added(Json item);
  // An event about the open item.
  void EmitAt(std::string_view type, Json fields);
  [[nodiscard]] bool IsCustomCall() const;
  [[nodiscard]] Json ResponseJson(std::string_view status) const;

  ResponseFrame frame_;
  bool begun_ = false;
  Item open_ = Item::kNone;
  Json item_;         // the open one
  std::string text_;  // of it
  Json output_ = Json::array();
  std::int64_t reasoning_tokens_ = 0;
  std::optional<scheduler::FinishReason> finish_;
};

class StreamedResponse final : public ResponseItems {
 public:
  StreamedResponse(ResponseFrame frame, Reply& reply)
      : ResponseItems(std::move(frame)), reply_(reply) {}

  void OnWaiting() override;
  [[nodiscard]] bool begun() const { return sequence_number_ > 0; }

 private:
  void Emit(Json event) override;

  Reply& reply_;
  int sequence_number_ = 0;
};

class WholeResponse final : public ResponseItems {
 public:
  using ResponseItems::ResponseItems;

  void OnWaiting() override {}

 private:
  void Emit(Json /*event*/) override {}
};

}  // namespace api
