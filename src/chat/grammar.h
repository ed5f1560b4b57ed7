#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "base/token_constraint.h"
#include "chat/tokenizer.h"

namespace chat {

// Grammar-constrained output, by llguidance. One factory a tokenizer: building it takes a while, so
// it is made on first use. Thread-safe.
class GrammarFactory {
 public:
  // `eos`: ids that may end the text.
  GrammarFactory(std::shared_ptr<const Tokenizer> tokenizer,  // shared: outlives every constraint
                 std::vector<TokenId> eos, int vocab_size);
  ~GrammarFactory();
  GrammarFactory(const GrammarFactory&) = delete;
  GrammarFactory& operator=(const GrammarFactory&) = delete;

  // Any JSON object (response_format json_object).
  [[nodiscard]] Result<std::unique_ptr<TokenConstraint>> JsonObject() const;
  // A JSON schema (response_format json_schema). Errors: kInvalidRequest with what the schema has
  // that cannot be used.
  [[nodiscard]] Result<std::unique_ptr<TokenConstraint>> JsonSchema(const Json& schema) const;
  // A grammar in llguidance's dialect of Lark. Errors: kInvalidRequest with what is wrong with it.
  [[nodiscard]] Result<std::unique_ptr<TokenConstraint>> Lark(std::string_view text) const;
  // A regular expression for the whole text. Errors: as Lark.
  [[nodiscard]] Result<std::unique_ptr<TokenConstraint>> Regex(std::string_view text) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace chat
