#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "chat/stream_event.h"

namespace parsers {

using EventSink = std::function<void(const chat::StreamEvent&)>;

// Turns a model's text, in pieces split anywhere, into events. Whatever the split, the joined
// events are the same; a text that cannot be understood is returned as content, never lost.
class StreamParser {
 public:
  StreamParser() = default;
  StreamParser(const StreamParser&) = delete;
  StreamParser& operator=(const StreamParser&) = delete;
  virtual ~StreamParser() = default;

  // `text`: whole UTF-8 characters.
  virtual void Feed(std::string_view text, const EventSink& emit) = 0;
  // The text has ended; `cut`: by max_tokens, not by the model.
  virtual void Finish(bool cut, const EventSink& emit) = 0;
};

struct ParserOptions {
  std::vector<chat::ToolSpec> tools;
  std::string_view prompt_tail;  // end of the rendered prompt: tells whether a think block is open
};

// The whole contract of a format's file: parsers/<name>.cpp defines
//   namespace parsers::<file name> { extern constinit const ParserFormat kFormat{...}; }
struct ParserFormat {
  std::string_view name;
  // Other names that the format goes by: those of other servers, of its models.
  std::span<const std::string_view> aliases = {};
  // Special tokens whose text the parser has to see.
  std::span<const std::string_view> markers = {};
  // Is this the wire format of a model with that chat template?
  bool (*matches)(std::string_view chat_template);
  std::unique_ptr<StreamParser> (*make)(const ParserOptions& options);
};

// Every format, in file-name order.
[[nodiscard]] std::span<const ParserFormat* const> All();

// By name or alias; nullptr when there is none.
[[nodiscard]] const ParserFormat* FindFormat(std::string_view name);

// The format of a model with that chat template; hermes where none says that it is: the
// prompt then describes the tools itself (chat/tools_as_text.h).
[[nodiscard]] const ParserFormat& FormatOfTemplate(std::string_view chat_template);

}  // namespace parsers
