#include <algorithm>

#include "parsers/parser.h"

namespace parsers {

const ParserFormat* FindFormat(std::string_view name) {
  for (const ParserFormat* format : All()) {
    if (format->name == name || std::ranges::find(format->aliases, name) != format->aliases.end()) {
      return format;
    }
  }
  return nullptr;
}

const ParserFormat& FormatOfTemplate(std::string_view chat_template) {
  for (const ParserFormat* format : All()) {
    if (format->matches(chat_template)) {
      return *format;
    }
  }
  return *FindFormat("hermes");
}

}  // namespace parsers
