//! Python syntax: text in, tree out, whatever the text.
//!
//! # Place
//! Uses `name`. Used by indexing and inference. Does not know files, modules or types.
//! # Invariants
//! - Parsing never fails, never panics and takes time linear in the text: what does not parse is
//!   skipped to the end of its line, reported in [`Ast::errors`], and the rest of the file keeps its
//!   meaning.
//! - Nesting is bounded as in CPython (200 brackets, 100 indentation levels), so recursion is too.
//! # Sources
//! The Python 3.14 grammar, docs.python.org/3/reference/grammar.html.

mod ast;
mod definition;
mod display;
mod expression;
mod lexer;
mod parser;
mod pattern;
mod statement;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use ast::*;
pub(crate) use lexer::Hole;
pub(crate) use parser::{Region, parse};
