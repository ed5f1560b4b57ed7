#include "api/anthropic_reply.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "api/generation_fields.h"
#include "api/overloaded.h"
#include "api/reasoning_seal.h"

namespace api {

void MessageBlocks::OnPrompt(const Usage& usage) { Begin(usage); }

void MessageBlocks::OnEvent(const ChoiceEvent& event) {
  for (const chat::StreamEvent& delta : event.deltas) {
    Take(delta);
  }
  if (event.finish) {
    Leave();
    finish_ = event.finish;
    stop_text_ = event.stop_text;
  }
}

void MessageBlocks::Take(const chat::StreamEvent& delta) {
  std::visit(
      Overloaded{
          [&](const chat::TextDelta& d) {
            if (!d.text.empty()) {
              Enter(Block::kText, {{"type", "text"}, {"text", ""}});
              AddDelta({{"type", "text_delta"}, {"text", d.text}});
            }
          },
          [&](const chat::ReasoningDelta& d) {
            if (d.text.empty()) {
              return;
            }
            Enter(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
            thinking_ += d.text;
            if (!frame_.form.omits_thinking) {
              AddDelta({{"type", "thinking_delta"}, {"thinking", d.text}});
            }
          },
          [&](const chat::ToolCallBegin& d) {
            Leave();
            has_call_ = true;
            Enter(
                Block::kToolUse,
                {{"type", "tool_use"}, {"id", d.id}, {"name", d.name}, {"input", Json::object()}});
          },
          [&](const chat::ToolArgumentsDelta& d) {
            AddDelta({{"type", "input_json_delta"}, {"partial_json", d.fragment}});
          },
          [&](const chat::ToolCallEnd&) { Leave(); },
      },
      delta);
}

void MessageBlocks::Enter(Block kind, const Json& block) {
  if (open_ == kind) {
    return;
  }
  Leave();
  OpenBlock(block);
  open_ = kind;
}

void MessageBlocks::Leave() {
  const Block was_open = std::exchange(open_, Block::kNone);
  if (was_open == Block::kNone) {
    return;
  }
  if (was_open == Block::kThinking) {
    // Text that the client was not shown has to come back inside the signature.
    const std::string text = std::exchange(thinking_, {});
    AddDelta({{"type", "signature_delta"},
              {"signature", SealReasoning(frame_.form.omits_thinking ? text : std::string())}});
  }
  CloseBlock();
}

Json MessageBlocks::UsageJson(const Usage& usage) const {
  // The bank stores whole blocks of every prompt; Anthropic's servers, whose word this is, what a
  // mark asks for.
  const std::int64_t computed = usage.prompt_tokens - usage.cached_tokens;
  const int block = frame_.model.bank_block_tokens;
  std::int64_t written = 0;
  if (frame_.form.counts_cache_writes && block > 0) {
    written = std::max<std::int64_t>(usage.prompt_tokens / block * block - usage.cached_tokens, 0);
  }
  return {{"input_tokens", computed - written},
          {"cache_creation_input_tokens", written},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

Json MessageBlocks::MessageJson(const Usage& usage, Json content) const {
  Json message = {{"id", frame_.id},
                  {"type", "message"},
                  {"role", "assistant"},
                  {"model", frame_.model.name},
                  {"content", std::move(content)}};
  message.update(StopJson());
  message["usage"] = UsageJson(usage);
  return message;
}

Json MessageBlocks::StopJson() const {
  Json reason = nullptr;
  if (finish_ == scheduler::FinishReason::kLength) {
    reason = "max_tokens";
  } else if (stop_text_) {
    reason = "stop_sequence";
  } else if (finish_) {
    reason = has_call_ ? "tool_use" : "end_turn";
  }
  return {{"stop_reason", std::move(reason)},
          {"stop_sequence", stop_text_ ? Json(*stop_text_) : Json(nullptr)}};
}

void StreamedMessage::Send(const Json& event) {
  if (!std::exchange(begun_, true)) {
    reply_.BeginEvents();
  }
  reply_.SendNamedEvent(event["type"].get_ref<const std::string&>(), DumpJson(event));
}

void StreamedMessage::OnWaiting() { Send({{"type", "ping"}}); }

void StreamedMessage::Begin(const Usage& usage) {
  Send({{"type", "message_start"}, {"message", MessageJson(usage, Json::array())}});
}

void StreamedMessage::OpenBlock(const Json& block) {
  Send({{"type", "content_block_start"}, {"index", index_}, {"content_block", block}});
}

void StreamedMessage::AddDelta(const Json& delta) {
  Send({{"type", "content_block_delta"}, {"index", index_}, {"delta", delta}});
}

void StreamedMessage::CloseBlock() {
  Send({{"type", "content_block_stop"}, {"index", index_}});
  ++index_;
}

void StreamedMessage::End(const Usage& usage) {
  Send({{"type", "message_delta"}, {"delta", StopJson()}, {"usage", UsageJson(usage)}});
  Send({{"type", "message_stop"}});
  reply_.EndEvents();
}

void WholeMessage::OpenBlock(const Json& block) { content_.push_back(block); }

void WholeMessage::AddDelta(const Json& delta) {
  Json& block = content_.back();
  for (const char* field : {"text", "thinking", "signature"}) {
    if (const auto more = delta.find(field); more != delta.end()) {
      block[field].get_ref<std::string&>() += more->get_ref<const std::string&>();
    }
  }
  if (const auto json = delta.find("partial_json"); json != delta.end()) {
    input_json_ += json->get_ref<const std::string&>();
  }
}

void WholeMessage::CloseBlock() {
  Json& block = content_.back();
  if (block["type"] != "tool_use") {
    return;
  }
  const std::string text = std::exchange(input_json_, {});
  Result<Json> input = ParseJson(text.empty() ? "{}" : text);
  // Arguments that max_tokens cut off are no JSON; they are handed out as they are.
  block["input"] = input && input->is_object() ? std::move(*input) : Json{{"partial_json", text}};
}

Json WholeMessage::Answer(const Usage& usage) const { return MessageJson(usage, content_); }

}  // namespace api
