#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace api {

// What clients put into their prompts for their own servers' sake, which says nothing to a model,
// but changes from session to session or from request to request and would cost the banked prefix
// of everything behind it. Left out where a whole text block has exactly the known form:
//
//   profile      rule                form
//   claude-code  attribution header  "x-anthropic-billing-header: cc_version=2.1;
//   cc_entrypoint=cli;" claude-code  tokens left         "<total_tokens>12345 tokens
//   left</total_tokens>", or Infinite
class Normalizer {
 public:
  // `--normalize`: "auto" (every profile, for no other text has these forms), "off", or a
  // profile's name. Error (kInvalidRequest): another name.
  [[nodiscard]] static Result<Normalizer> Make(std::string_view name);
  Normalizer() = default;  // auto

  [[nodiscard]] const std::string& name() const { return name_; }

  // The rule by which a text block is left out, "claude-code: tokens left"; empty: it stays.
  [[nodiscard]] std::string RuleFor(std::string_view block) const;

 private:
  std::string name_ = "auto";
};

}  // namespace api
