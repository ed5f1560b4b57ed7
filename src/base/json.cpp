#include "base/json.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

namespace {

// The parser's complaint quotes what it read last, which may be megabytes.
constexpr std::size_t kLongestComplaint = 240;

// Follows nlohmann's SAX events only to count depth and members: its own parser recurses in the
// destructor of what it built.
class SizeCheck : public nlohmann::json_sax<Json> {
 public:
  explicit SizeCheck(std::int64_t max_key_comparisons) : comparisons_left_(max_key_comparisons) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Enter(); }
  bool key(string_t&) override {
    comparisons_left_ -= ++members_.back();
    if (comparisons_left_ < 0) {
      problem = fmt::format("The JSON has objects with too many members, one of at least {}.",
                            members_.back());
    }
    return comparisons_left_ >= 0;
  }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The library's text starts with "[json.exception...] "; what follows speaks of the input only.
    std::string_view what = error.what();
    const std::size_t end = what.find("] ");
    what.remove_prefix(end == std::string_view::npos ? 0 : end + 2);
    problem = fmt::format("The JSON is not valid at byte {}: {}{}", position,
                          what.substr(0, kLongestComplaint),
                          what.size() > kLongestComplaint ? "..." : "");
    return false;
  }

  std::string problem;

 private:
  bool Enter() {
    members_.push_back(0);
    if (members_.size() > kMaxJsonDepth) {
      problem = fmt::format("The JSON is nested more than {} levels deep.", kMaxJsonDepth);
      return false;
    }
    return true;
  }
  bool Leave() {
    members_.pop_back();
    return true;
  }
  std::vector<std::int64_t> members_;  // so far, of each object or array around the place
  std::int64_t comparisons_left_;
};

Result<Json> Parse(std::string_view text, std::int64_t max_key_comparisons) {
  SizeCheck check(max_key_comparisons);
  if (!Json::sax_parse(text.begin(), text.end(), &check)) {
    return Fail(ErrorCode::kInvalidRequest, check.problem);
  }
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

}  // namespace

Result<Json> ParseJson(std::string_view text) {
  return Parse(text, std::numeric_limits<std::int64_t>::max());
}

Result<Json> ParseClientJson(std::string_view text) { return Parse(text, kMaxKeyComparisons); }

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}
