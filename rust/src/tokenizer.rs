//! Hugging Face tokenizers, with two things added: the exact bytes of every token, and encoding with spans in which
//! added tokens stay text.

use crate::ffi::{bytes_out, guard, ids_out, slice, EbBytes, EbIds, EbSpan, EbText};
use ahash::AHashMap;
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value as Json;
use std::collections::HashMap;
use tokenizers::models::bpe::{Merges, BPE};
use tokenizers::normalizer::Range;
use tokenizers::tokenizer::pre_tokenizer::PreTokenizedString;
use tokenizers::{
    AddedToken, Encoding, Model, NormalizedString, Normalizer, OffsetType, PreTokenizer, Token, Tokenizer,
};

// Tables have an entry for every id up to the largest: a damaged file must not fill the memory.
const MAX_TOKENS: usize = 1 << 22;
const KNOWN: u8 = 1;
const ADDED: u8 = 2;
const SPECIAL: u8 = 4;

pub struct EbTokenizer {
    inner: Tokenizer,
    /// Of added tokens looked for before and after normalisation.
    raw: Matcher,
    normalized: Matcher,
    bytes: Vec<u8>,
    offsets: Vec<usize>,
    flags: Vec<u8>,
    strips_first_space: bool,
}

impl EbTokenizer {
    fn new(json: &str) -> Result<Self, String> {
        Self::of(Tokenizer::from_bytes(json.as_bytes()).map_err(|e| e.to_string())?)
    }

    /// As `new`, with vocabulary and merges given beside the JSON.
    fn new_bpe(json: &str, vocab: AHashMap<String, u32>, merges: Merges) -> Result<Self, String> {
        let mut json: Json = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let added: Vec<AddedToken> =
            serde_json::from_value(json["added_tokens"].take()).map_err(|e| e.to_string())?;
        json["added_tokens"] = Json::Array(Vec::new());
        let flag = |name: &str| json["model"][name].as_bool().unwrap_or(false);
        let mut builder = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .fuse_unk(flag("fuse_unk"))
            .byte_fallback(flag("byte_fallback"))
            .ignore_merges(flag("ignore_merges"));
        if let Some(unk_token) = json["model"]["unk_token"].as_str() {
            builder = builder.unk_token(unk_token.to_string());
        }
        let model = builder.build().map_err(|e| e.to_string())?;
        let mut inner = Tokenizer::from_bytes(json.to_string()).map_err(|e| e.to_string())?;
        inner.with_model(model);
        inner.add_tokens(added).map_err(|e| e.to_string())?;
        Self::of(inner)
    }

    fn of(mut inner: Tokenizer) -> Result<Self, String> {
        // As transformers: a saved truncation or padding is a setting of training, not of the model.
        inner.with_truncation(None).map_err(|e| e.to_string())?;
        inner.with_padding(None);
        let added = inner.get_added_tokens_decoder();
        let (raw, normalized) = matchers(&inner)?;
        let decoder = DecoderRules::of(&inner);
        let size = inner.get_vocab(true).values().max().map_or(0, |max| *max as usize + 1);
        if size > MAX_TOKENS {
            return Err(format!("it has a token with the id {}, of at most {}", size - 1, MAX_TOKENS - 1));
        }
        let byte_of = byte_level_map();
        let mut table = EbTokenizer {
            raw,
            normalized,
            bytes: Vec::new(),
            offsets: vec![0],
            flags: Vec::with_capacity(size),
            strips_first_space: decoder.strips_first_space,
            inner,
        };
        for id in 0..size as u32 {
            let mut flags = 0;
            if let Some(text) = table.inner.id_to_token(id) {
                flags |= KNOWN;
                decoder.append_bytes(&text, &byte_of, &mut table.bytes);
            }
            if let Some(token) = added.get(&id) {
                flags |= ADDED | if token.special { SPECIAL } else { 0 };
            }
            table.flags.push(flags);
            table.offsets.push(table.bytes.len());
        }
        Ok(table)
    }

    pub fn size(&self) -> usize {
        self.flags.len()
    }

    pub fn token(&self, id: usize) -> (&[u8], u8) {
        if id < self.flags.len() {
            (&self.bytes[self.offsets[id]..self.offsets[id + 1]], self.flags[id])
        } else {
            (&[], 0)
        }
    }

    pub fn is_special(flags: u8) -> bool {
        flags & SPECIAL != 0
    }

    fn encode(&self, text: &str, spans: &[EbSpan], add_special: bool) -> Result<Encoding, String> {
        let encoded = if spans.is_empty() {
            self.inner.encode_fast(text, add_special)
        } else {
            self.encode_protected(text, spans).and_then(|encoding| self.inner.post_process(encoding, None, add_special))
        };
        encoded.map_err(|e| e.to_string())
    }

    /// The steps of Tokenizer::encode, one by one, with a search for added tokens that leaves `spans` alone. What
    /// surrounds a protected token is pre-tokenized together with it, as any text.
    fn encode_protected(&self, text: &str, spans: &[EbSpan]) -> tokenizers::Result<Encoding> {
        let mut pieces: PreTokenizedString = text.into();
        pieces.split(|_, piece| Ok(self.raw.split(piece, spans)))?;
        pieces.split(|_, mut piece| {
            if let Some(normalizer) = self.inner.get_normalizer() {
                normalizer.normalize(&mut piece)?;
            }
            Ok(self.normalized.split(piece, spans))
        })?;
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        pieces.tokenize(|piece| self.inner.get_model().tokenize(piece.get()))?;
        pieces.into_encoding(None, 0, OffsetType::None)
    }
}

/// Searches a text for added tokens, leftmost longest, as tokenizers' AddedVocabulary does.
struct Matcher {
    automaton: Option<AhoCorasick>,
    tokens: Vec<(u32, AddedToken)>,
}

impl Matcher {
    fn new(patterns: Vec<String>, tokens: Vec<(u32, AddedToken)>) -> Result<Self, String> {
        let automaton = if patterns.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns);
            Some(built.map_err(|e| e.to_string())?)
        };
        Ok(Matcher { automaton, tokens })
    }

    fn split(&self, piece: NormalizedString, spans: &[EbSpan]) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
        let mut parts = Vec::new();
        let mut done = 0;
        let text = piece.get();
        for (range, id) in self.matches(&piece, spans) {
            let begin = range.start.max(done);
            if done < begin {
                parts.push((cut(&piece, done..begin), None));
            }
            let token = Token::new(id, text[begin..range.end].to_string(), (0, range.end - begin));
            parts.push((cut(&piece, begin..range.end), Some(vec![token])));
            done = range.end;
        }
        if done < text.len() || text.is_empty() {
            parts.push((cut(&piece, done..text.len()), None));
        }
        parts
    }

    fn matches(&self, piece: &NormalizedString, spans: &[EbSpan]) -> Vec<(std::ops::Range<usize>, u32)> {
        let text = piece.get();
        let Some(automaton) = &self.automaton else { return Vec::new() };
        let mut found = Vec::new();
        for hit in automaton.find_iter(text) {
            let (id, token) = &self.tokens[hit.pattern().as_usize()];
            let (mut begin, mut end) = (hit.start(), hit.end());
            if is_protected(piece, begin..end, token, spans) || (token.single_word && in_word(text, begin, end)) {
                continue;
            }
            if token.lstrip {
                begin = text[..begin].trim_end().len();
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            found.push((begin..end, *id));
        }
        found
    }
}

fn cut(piece: &NormalizedString, range: std::ops::Range<usize>) -> NormalizedString {
    piece.slice(Range::Normalized(range)).expect("added tokens lie on character borders")
}

fn in_word(text: &str, begin: usize, end: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text[..begin].chars().next_back().is_some_and(is_word) || text[end..].chars().next().is_some_and(is_word)
}

/// White space that is a token of its own (Gemma's runs of newlines and spaces) gives no control over anything and
/// must be encoded as everywhere else.
fn is_protected(piece: &NormalizedString, range: std::ops::Range<usize>, token: &AddedToken, spans: &[EbSpan]) -> bool {
    if token.content.chars().all(|c| c.is_whitespace() || c == '\u{2581}') {
        return false;
    }
    let shift = piece.offsets_original().0;
    let Some(original) = piece.convert_offsets(Range::Normalized(range)) else { return true };
    let (begin, end) = (shift + original.start, shift + original.end);
    let first = spans.partition_point(|span| span.end <= begin);
    first < spans.len() && spans[first].begin < end
}

fn matchers(tokenizer: &Tokenizer) -> Result<(Matcher, Matcher), String> {
    let mut patterns = (Vec::new(), Vec::new());
    let mut tokens = (Vec::new(), Vec::new());
    for (id, token) in tokenizer.get_added_tokens_decoder() {
        if token.normalized {
            let mut text = NormalizedString::from(token.content.as_str());
            if let Some(normalizer) = tokenizer.get_normalizer() {
                normalizer.normalize(&mut text).map_err(|e| e.to_string())?;
            }
            patterns.1.push(text.get().to_string());
            tokens.1.push((id, token));
        } else {
            patterns.0.push(token.content.clone());
            tokens.0.push((id, token));
        }
    }
    Ok((Matcher::new(patterns.0, tokens.0)?, Matcher::new(patterns.1, tokens.1)?))
}

/// GPT-2's printable stand-ins for bytes (encoder.py, bytes_to_unicode).
fn byte_level_map() -> HashMap<char, u8> {
    let mut map = HashMap::new();
    let mut next = 256;
    for byte in 0..=255u8 {
        if matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) {
            map.insert(byte as char, byte);
        } else {
            map.insert(char::from_u32(next).expect("below the surrogates"), byte);
            next += 1;
        }
    }
    map
}

/// What the decoder of tokenizer.json does to one token.
#[derive(Default)]
struct DecoderRules {
    byte_level: bool,
    byte_fallback: bool,
    replacements: Vec<(String, String)>,
    strips_first_space: bool,
}

impl DecoderRules {
    fn of(tokenizer: &Tokenizer) -> Self {
        let mut rules = DecoderRules::default();
        let json = tokenizer.get_decoder().and_then(|decoder| serde_json::to_value(decoder).ok());
        rules.read(&json.unwrap_or(Json::Null));
        rules
    }

    fn read(&mut self, decoder: &Json) {
        match decoder["type"].as_str().unwrap_or_default() {
            "Sequence" => {
                for part in decoder["decoders"].as_array().into_iter().flatten() {
                    self.read(part);
                }
            }
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Replace" => {
                if let (Some(from), Some(to)) = (decoder["pattern"]["String"].as_str(), decoder["content"].as_str()) {
                    self.replacements.push((from.to_string(), to.to_string()));
                }
            }
            "Strip" => {
                self.strips_first_space |=
                    decoder["content"].as_str() == Some(" ") && decoder["start"].as_u64().unwrap_or(0) > 0;
            }
            "Metaspace" => {
                let mark = decoder["replacement"].as_str().unwrap_or("\u{2581}");
                self.replacements.push((mark.to_string(), " ".to_string()));
                self.strips_first_space |= decoder["prepend_scheme"].as_str() != Some("never");
            }
            _ => {}
        }
    }

    fn append_bytes(&self, token: &str, byte_of: &HashMap<char, u8>, out: &mut Vec<u8>) {
        if self.byte_level {
            if let Some(bytes) = token.chars().map(|c| byte_of.get(&c).copied()).collect::<Option<Vec<u8>>>() {
                out.extend(bytes);
                return;
            }
        }
        let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>')).filter(|hex| hex.len() == 2);
        if let (true, Some(byte)) = (self.byte_fallback, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            out.push(byte);
            return;
        }
        let replaced = self.replacements.iter().fold(token.to_string(), |text, (from, to)| text.replace(from, to));
        out.extend(replaced.as_bytes());
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_new(json: EbText, out: *mut *mut EbTokenizer, error: *mut EbBytes) -> bool {
    guard(error, || {
        *out = Box::into_raw(Box::new(EbTokenizer::new(json.as_str()?)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_new_bpe(
    json: EbText,
    tokens: *const EbText,
    n_tokens: usize,
    merges: *const EbText,
    n_merges: usize,
    out: *mut *mut EbTokenizer,
    error: *mut EbBytes,
) -> bool {
    guard(error, || {
        let mut vocab = AHashMap::with_capacity(n_tokens);
        for (id, token) in slice(tokens, n_tokens).iter().enumerate() {
            vocab.insert(token.as_str()?.to_string(), id as u32);
        }
        let mut pairs = Merges::with_capacity(n_merges);
        for pair in slice(merges, 2 * n_merges).chunks_exact(2) {
            pairs.push((pair[0].as_str()?.to_string(), pair[1].as_str()?.to_string()));
        }
        *out = Box::into_raw(Box::new(EbTokenizer::new_bpe(json.as_str()?, vocab, pairs)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_free(tokenizer: *mut EbTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_encode(
    tokenizer: *const EbTokenizer,
    text: EbText,
    spans: *const EbSpan,
    n_spans: usize,
    add_special: bool,
    out: *mut EbIds,
    error: *mut EbBytes,
) -> bool {
    guard(error, || {
        let encoding = (*tokenizer).encode(text.as_str()?, slice(spans, n_spans), add_special)?;
        *out = ids_out(encoding.get_ids());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_decode(
    tokenizer: *const EbTokenizer,
    ids: *const u32,
    n_ids: usize,
    skip_special: bool,
    out: *mut EbBytes,
    error: *mut EbBytes,
) -> bool {
    guard(error, || {
        let text = (*tokenizer).inner.decode(slice(ids, n_ids), skip_special).map_err(|e| e.to_string())?;
        *out = bytes_out(text.into_bytes());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_append(tokenizer: *mut EbTokenizer, bytes: EbText) {
    let table = &mut *tokenizer;
    table.bytes.extend_from_slice(bytes.as_bytes());
    table.offsets.push(table.bytes.len());
    table.flags.push(KNOWN);
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_find(tokenizer: *const EbTokenizer, token: EbText) -> i64 {
    match token.as_str() {
        Ok(text) => (*tokenizer).inner.token_to_id(text).map_or(-1, i64::from),
        Err(_) => -1,
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_size(tokenizer: *const EbTokenizer) -> usize {
    (*tokenizer).size()
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_strips_first_space(tokenizer: *const EbTokenizer) -> bool {
    (*tokenizer).strips_first_space
}

#[no_mangle]
pub unsafe extern "C" fn eb_tokenizer_token(tokenizer: *const EbTokenizer, id: u32, flags: *mut u8) -> EbText {
    let (bytes, token_flags) = (*tokenizer).token(id as usize);
    if !flags.is_null() {
        *flags = token_flags;
    }
    EbText::from_bytes(bytes)
}
