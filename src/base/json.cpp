#include "base/json.h"

#include <fmt/format.h>

namespace {

// Follows nlohmann's SAX events only to count depth: its own parser recurses in the destructor of
// what it built.
class DepthCheck : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Enter(); }
  bool key(string_t&) override { return true; }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The library's text starts with "[json.exception...] "; what follows speaks of the input only.
    const std::string what = error.what();
    const std::size_t end = what.find("] ");
    problem = fmt::format("The JSON is not valid at byte {}: {}", position,
                          end == std::string::npos ? what : what.substr(end + 2));
    return false;
  }

  std::string problem;

 private:
  bool Enter() {
    if (++depth_ > kMaxJsonDepth) {
      problem = fmt::format("The JSON is nested more than {} levels deep.", kMaxJsonDepth);
      return false;
    }
    return true;
  }
  bool Leave() {
    --depth_;
    return true;
  }
  int depth_ = 0;
};

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  DepthCheck check;
  if (!Json::sax_parse(text.begin(), text.end(), &check)) {
    return Fail(ErrorCode::kInvalidRequest, check.problem);
  }
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}
