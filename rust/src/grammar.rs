//! Grammar-constrained output by llguidance: one factory a tokenizer, one matcher a sequence.

use crate::ffi::{guard, slice, EbBytes, EbText};
use crate::tokenizer::EbTokenizer;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{earley::SlicedBiasComputer, Matcher, ParserFactory};
use serde_json::{json, Value as Json};
use std::sync::Arc;

pub struct EbGrammarFactory {
    factory: ParserFactory,
    eos: Vec<u32>,
}

pub struct EbGrammar {
    matcher: Matcher,
    eos: Vec<u32>,
}

/// The vocabulary as a trie. Special tokens and ids without text get names that no grammar can produce.
fn token_environment(tokenizer: &EbTokenizer, eos: &[u32], vocab_size: usize) -> Result<TokEnv, String> {
    if eos.is_empty() || eos.iter().any(|id| *id as usize >= vocab_size) {
        return Err("constrained output needs an end-of-text token inside the vocabulary".into());
    }
    let words: Vec<Vec<u8>> = (0..vocab_size)
        .map(|id| {
            let (bytes, flags) = tokenizer.token(id);
            if bytes.is_empty() || EbTokenizer::is_special(flags) || eos.contains(&(id as u32)) {
                let mut name = vec![TokTrie::SPECIAL_TOKEN_MARKER];
                name.extend(format!("<[{id}]>").bytes());
                name
            } else {
                bytes.to_vec()
            }
        })
        .collect();
    let info = TokRxInfo::new(vocab_size as u32, eos[0]);
    let trie = TokTrie::from(&info, &words).with_eos_tokens(eos);
    Ok(Arc::new(ApproximateTokEnv::new(trie)))
}

/// What the text of a grammar is written in; the values are those of EbGrammarKind.
const KIND_JSON_SCHEMA: u32 = 0;
const KIND_LARK: u32 = 1;
const KIND_REGEX: u32 = 2;

fn top_level_grammar(kind: u32, text: &str) -> Result<TopLevelGrammar, String> {
    match kind {
        KIND_JSON_SCHEMA => {
            let schema = serde_json::from_str(text).map_err(|e| e.to_string())?;
            Ok(TopLevelGrammar::from_json_schema(with_compact_whitespace(schema)?))
        }
        KIND_LARK => Ok(TopLevelGrammar::from_lark(text.to_string())),
        KIND_REGEX => Ok(TopLevelGrammar::from_regex(text)),
        _ => Err(format!("{kind} is no kind of grammar")),
    }
}

/// White space between JSON's parts is one space at most: a small model that is allowed more goes on with it for ever.
fn with_compact_whitespace(schema: Json) -> Result<Json, String> {
    let mut schema = match schema {
        Json::Bool(true) => json!({}),
        Json::Object(map) => Json::Object(map),
        _ => return Err("a JSON schema must be an object".into()),
    };
    schema["x-guidance"] = json!({"whitespace_flexible": true, "whitespace_pattern": "[ ]?"});
    Ok(schema)
}

impl EbGrammar {
    fn mask(&mut self, words: &mut [u32]) -> Result<(), String> {
        words.fill(0);
        let mask = self.matcher.compute_mask_or_eos().map_err(|e| e.to_string())?;
        let n = words.len().min(mask.as_slice().len());
        words[..n].copy_from_slice(&mask.as_slice()[..n]);
        let may_end = self.matcher.is_stopped() || self.matcher.is_accepting().map_err(|e| e.to_string())?;
        for id in &self.eos {
            if let (true, Some(word)) = (may_end, words.get_mut(*id as usize / 32)) {
                *word |= 1 << (id % 32);
            }
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        if self.matcher.is_stopped() && !self.matcher.is_error() && self.eos.contains(&token) {
            return Ok(());
        }
        self.matcher.consume_token(token).map_err(|e| e.to_string())
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_grammar_factory_new(
    tokenizer: *const EbTokenizer,
    eos: *const u32,
    n_eos: usize,
    vocab_size: usize,
    out: *mut *mut EbGrammarFactory,
    error: *mut EbBytes,
) -> bool {
    guard(error, || {
        let eos = slice(eos, n_eos).to_vec();
        let environment = token_environment(&*tokenizer, &eos, vocab_size)?;
        let slices = SlicedBiasComputer::json_slices();
        let mut factory =
            ParserFactory::new(&environment, InferenceCapabilities::default(), &slices).map_err(|e| e.to_string())?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        // Objects with a thousand optional properties, and choices of some such, are schemas that people send.
        limits.max_items_in_row = 20_000;
        limits.step_max_items = 500_000;
        limits.initial_lexer_fuel = 20_000_000;
        limits.step_lexer_fuel = 2_000_000;
        *out = Box::into_raw(Box::new(EbGrammarFactory { factory, eos }));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_grammar_factory_free(factory: *mut EbGrammarFactory) {
    if !factory.is_null() {
        drop(Box::from_raw(factory));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_grammar_new(
    factory: *const EbGrammarFactory,
    kind: u32,
    text: EbText,
    out: *mut *mut EbGrammar,
    error: *mut EbBytes,
) -> bool {
    guard(error, || {
        let grammar = top_level_grammar(kind, text.as_str()?)?;
        let parser = (*factory).factory.create_parser(grammar).map_err(|e| e.to_string())?;
        let mut matcher = Matcher::new(Ok(parser));
        // Some that cannot begin, as a schema that is only a reference to itself, are refused here only.
        if let Err(error) = matcher.compute_mask_or_eos() {
            let reason = error.to_string();
            return Err(format!("no text satisfies it, or it is too large ({})", reason.lines().next().unwrap_or("")));
        }
        *out = Box::into_raw(Box::new(EbGrammar { matcher, eos: (*factory).eos.clone() }));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_grammar_free(grammar: *mut EbGrammar) {
    if !grammar.is_null() {
        drop(Box::from_raw(grammar));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_grammar_mask(
    grammar: *mut EbGrammar,
    words: *mut u32,
    n_words: usize,
    error: *mut EbBytes,
) -> bool {
    guard(error, || {
        let words = if n_words == 0 { &mut [] } else { std::slice::from_raw_parts_mut(words, n_words) };
        (*grammar).mask(words)
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_grammar_accept(grammar: *mut EbGrammar, token: u32, error: *mut EbBytes) -> bool {
    guard(error, || (*grammar).accept(token))
}
