#include "parsers/parser.h"

namespace parsers::plain_text {
namespace {

// Everything is content.
class PlainText final : public StreamParser {
 public:
  void Feed(std::string_view text, const EventSink& emit) override {
    if (!text.empty()) {
      emit(chat::TextDelta{.text = std::string(text)});
    }
  }
  void Finish(bool /*cut*/, const EventSink& /*emit*/) override {}
};

// Chosen by name only, where no other format matches.
bool Matches(std::string_view /*chat_template*/) { return false; }

std::unique_ptr<StreamParser> Make(const ParserOptions& /*options*/) {
  return std::make_unique<PlainText>();
}

CallForm Calls(const GrammarWriter& /*grammar*/) { return {}; }

}  // namespace

extern constinit const ParserFormat kFormat{
    .name = "plain_text", .matches = &Matches, .make = &Make, .calls = &Calls};

}  // namespace parsers::plain_text
