#include "parsers/parser.h"

namespace parsers {

const ParserFormat* FindFormat(std::string_view name) {
  for (const ParserFormat* format : All()) {
    if (format->name == name) {
      return format;
    }
  }
  return nullptr;
}

}  // namespace parsers
