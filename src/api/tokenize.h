#pragma once

#include "api/reply.h"
#include "api/served_model.h"

namespace api {

// POST /tokenize: {prompt | content, add_special_tokens | add_special, ...} or {messages, ...} ->
// {count, max_model_len, tokens}, as vLLM and llama-server answer.
void Tokenize(ModelManager& models, const ApiRequest& request, Reply& reply);

// POST /detokenize: {tokens} -> {prompt, content}, the text under both servers' names.
void Detokenize(ModelManager& models, const ApiRequest& request, Reply& reply);

}  // namespace api
