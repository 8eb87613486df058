//! Text to token ids and back: vocabulary as bytes, encoding, incremental decoding, chat templates.
//!
//! # Place
//! Uses `base` and `format` (metadata). Used by `constrain` (bytes of ids), `engine` (decoding) and
//! `runtime` (encoding, chat). Does not know weights, masks or requests.
//! # Invariants
//! - Text is bytes: the spelling of a vocabulary (`Ġ`, `▁`, `<0x0A>`) is undone once, at load; nothing
//!   maps a decoded string back to an id.
//! - A token that must never appear in text (control, unknown, unused) has no bytes.
//! - The splitting before byte-pair encoding is the model's own, or the file is refused by name.
//! # Errors
//! [`TokenizerError`].

mod byte_pair;
mod chat;
mod codec;
mod error;
mod gguf;
mod hf;
mod role;
mod sentencepiece;
mod splitter;
mod stream;
mod token_bytes;

#[cfg(test)]
mod tests;

pub use chat::{ChatOptions, ChatTemplate, Message, TemplateSource};
pub use codec::{AddBos, Specials, Tokenizer};
pub use error::{BrokenTemplate, TokenizerError};
pub use role::{EosSet, FimTokens};
pub use stream::StreamDecoder;
