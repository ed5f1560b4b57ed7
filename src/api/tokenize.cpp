#include "api/tokenize.h"

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "api/generation_fields.h"
#include "api/prompt.h"
#include "api/validation.h"

namespace api {
namespace {

Result<std::vector<TokenId>> EncodeText(FieldReader& fields, const ServedModel& model) {
  std::optional<std::string> text = fields.String("prompt");
  const bool is_vllm = text.has_value();
  if (!text) {
    text = fields.String("content");
  }
  if (!text) {
    fields.FailField("prompt", "is missing: one of `prompt`, `content`, `messages` is expected.");
  }
  // The defaults of the two servers differ: vLLM adds BOS, llama-server does not.
  const auto add_special_tokens = fields.Bool("add_special_tokens");
  const bool add_special =
      add_special_tokens.value_or(fields.Bool("add_special").value_or(is_vllm));
  const bool parse_special = fields.Bool("parse_special").value_or(true);
  if (fields.error()) {
    return Fail(*fields.error());
  }
  if (Result<void> fits = model.tokenizer->CheckLength(*text, model.context_length); !fits) {
    return Fail(fits.error());
  }
  using SpecialTokens = chat::Tokenizer::SpecialTokens;
  return model.tokenizer->Encode(
      *text, parse_special ? SpecialTokens::kParse : SpecialTokens::kAsText, add_special);
}

Json Pieces(const std::vector<TokenId>& ids, const ServedModel& model) {
  Json pieces = Json::array();
  for (const TokenId id : ids) {
    pieces.push_back(std::string(model.tokenizer->TokenBytes(id)));
  }
  return pieces;
}

Json TokensJson(const std::vector<TokenId>& ids, const ServedModel& model, FieldReader& fields) {
  Json answer = {{"count", ids.size()}, {"max_model_len", model.context_length}, {"tokens", ids}};
  if (fields.Bool("return_token_strs").value_or(false)) {
    answer["token_strs"] = Pieces(ids, model);
  }
  if (fields.Bool("with_pieces").value_or(false)) {
    const Json pieces = Pieces(ids, model);
    answer["tokens"] = Json::array();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      answer["tokens"].push_back({{"id", ids[i]}, {"piece", pieces[i]}});
    }
  }
  return answer;
}

Result<std::vector<TokenId>> ReadTokens(const Json& body) {
  FieldReader fields(body);
  const Json* list = fields.Array("tokens");
  if (list == nullptr) {
    fields.FailField("tokens", "is missing: a list of token ids is expected.");
    return Fail(*fields.error());
  }
  if (list->size() > kMaxDetokenized) {
    fields.FailField("tokens", fmt::format("must have at most {} token ids, got {}.",
                                           kMaxDetokenized, list->size()));
    return Fail(*fields.error());
  }
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& id = (*list)[i];
    if (!id.is_number_integer() || id.get<double>() < 0 ||
        id.get<double>() > std::numeric_limits<TokenId>::max()) {
      fields.FailField(fmt::format("tokens[{}]", i),
                       fmt::format("must be a token id, got {}.", DumpJson(id).substr(0, 40)));
      return Fail(*fields.error());
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

}  // namespace

void Tokenize(ModelManager& models, const ApiRequest& request, Reply& reply) {
  const Result<BodyAndModel> opened = OpenBody(models, request);
  if (!opened) {
    reply.SendError(opened.error());
    return;
  }
  FieldReader fields(opened->body);
  const Result<std::vector<TokenId>> ids =
      fields.Find("messages") != nullptr
          ? EncodeMessages(opened->body, *opened->model, CacheSalt(fields, request))
          : EncodeText(fields, *opened->model);
  if (!ids) {
    reply.SendError(ids.error());
    return;
  }
  const Json answer = TokensJson(*ids, *opened->model, fields);
  if (fields.error()) {
    reply.SendError(*fields.error());
  } else {
    reply.SendJson(200, answer);
  }
}

void Detokenize(ModelManager& models, const ApiRequest& request, Reply& reply) {
  const Result<BodyAndModel> opened = OpenBody(models, request);
  if (!opened) {
    reply.SendError(opened.error());
    return;
  }
  const Result<std::vector<TokenId>> ids = ReadTokens(opened->body);
  if (!ids) {
    reply.SendError(ids.error());
    return;
  }
  const Result<std::string> text = opened->model->tokenizer->Decode(*ids, /*skip_special=*/false);
  if (text) {
    reply.SendJson(200, {{"prompt", *text}, {"content", *text}});
  } else {
    reply.SendError(text.error());
  }
}

}  // namespace api
