// C interface of the Rust crate behind tokenizers (Hugging Face tokenizers), chat templates
// (minijinja) and grammars (llguidance). Used by src/chat only.
//
// Rules: texts are UTF-8 with a length, not terminated. A function that returns bool gives false on
// failure and then fills `error`, which the caller frees; on success `error` is untouched. Output
// buffers are freed by the caller with eb_bytes_free / eb_ids_free. A panic inside becomes an
// error. Tokenizers, templates and grammar factories may be used by several threads at once; a
// grammar by one at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct EbTokenizer EbTokenizer;
typedef struct EbTemplate EbTemplate;
typedef struct EbGrammarFactory EbGrammarFactory;
typedef struct EbGrammar EbGrammar;

typedef struct EbBytes {
  uint8_t* data;
  size_t size;
} EbBytes;

typedef struct EbIds {
  uint32_t* data;
  size_t size;
} EbIds;

typedef struct EbText {
  const char* data;
  size_t size;
} EbText;

// [begin, end) in bytes.
typedef struct EbSpan {
  size_t begin;
  size_t end;
} EbSpan;

void eb_bytes_free(EbBytes bytes);
void eb_ids_free(EbIds ids);

// --- tokenizer ---

enum { EB_TOKEN_KNOWN = 1, EB_TOKEN_ADDED = 2, EB_TOKEN_SPECIAL = 4 };

// `json`: the content of a tokenizer.json.
bool eb_tokenizer_new(EbText json, EbTokenizer** out, EbBytes* error);
// `json`: as above, but its BPE model has neither vocabulary nor merges. `tokens`: by id.
// `merges`: 2 * n_merges texts, left and right, best first.
bool eb_tokenizer_new_bpe(EbText json, const EbText* tokens, size_t n_tokens, const EbText* merges,
                          size_t n_merges, EbTokenizer** out, EbBytes* error);
void eb_tokenizer_free(EbTokenizer* tokenizer);

// Added tokens written in `text` become their ids, except where they touch one of `spans` (sorted,
// disjoint), unless they are white space only. `add_special`: what the post-processor adds.
bool eb_tokenizer_encode(const EbTokenizer* tokenizer, EbText text, const EbSpan* spans,
                         size_t n_spans, bool add_special, EbIds* out, EbBytes* error);
bool eb_tokenizer_decode(const EbTokenizer* tokenizer, const uint32_t* ids, size_t n_ids,
                         bool skip_special, EbBytes* out, EbBytes* error);
// A further token, known by its id and its bytes only: no text is encoded to it. To be called
// before the tokenizer is used.
void eb_tokenizer_append(EbTokenizer* tokenizer, EbText bytes);
// -1 when there is none.
int64_t eb_tokenizer_find(const EbTokenizer* tokenizer, EbText token);
// One past the largest id.
size_t eb_tokenizer_size(const EbTokenizer* tokenizer);
// Does decoding drop one space at the very beginning of a text (SentencePiece's prefix)?
bool eb_tokenizer_strips_first_space(const EbTokenizer* tokenizer);
// The bytes of token `id`, owned by the tokenizer; empty when unknown. `flags` may be null.
EbText eb_tokenizer_token(const EbTokenizer* tokenizer, uint32_t id, uint8_t* flags);

// --- chat template ---

// Error: what is wrong and in which line.
bool eb_template_new(EbText source, EbTemplate** out, EbBytes* error);
void eb_template_free(EbTemplate* chat_template);
// `variables`: a JSON object. `raised` is set when the error is the template's own
// (raise_exception).
bool eb_template_render(const EbTemplate* chat_template, EbText variables, EbBytes* out,
                        bool* raised, EbBytes* error);

// --- grammar ---

// `eos`: ids that may end the text. The tokenizer is only read here.
bool eb_grammar_factory_new(const EbTokenizer* tokenizer, const uint32_t* eos, size_t n_eos,
                            size_t vocab_size, EbGrammarFactory** out, EbBytes* error);
void eb_grammar_factory_free(EbGrammarFactory* factory);
enum EbGrammarKind { EB_GRAMMAR_JSON_SCHEMA = 0, EB_GRAMMAR_LARK = 1, EB_GRAMMAR_REGEX = 2 };
// `text`: of that kind. Error: what of it cannot be used, also when no token can begin it.
bool eb_grammar_new(const EbGrammarFactory* factory, uint32_t kind, EbText text, EbGrammar** out,
                    EbBytes* error);
void eb_grammar_free(EbGrammar* grammar);
// Writes one bit a token id into `words` (n_words x 32 bits; ids past the vocabulary get 0).
bool eb_grammar_mask(EbGrammar* grammar, uint32_t* words, size_t n_words, EbBytes* error);
bool eb_grammar_accept(EbGrammar* grammar, uint32_t token, EbBytes* error);

#ifdef __cplusplus
}
#endif
