//! C interface over Hugging Face tokenizers, minijinja and llguidance; contract in include/emberbank_rust.h.

mod ffi;
mod grammar;
mod python;
mod python_methods;
mod template;
mod tokenizer;
