//! Inference: what an expression may be, computed when it is asked for.
//!
//! # Place
//! Uses the other parts of `repo`. Used by completion (through [`super::Analysis`]), queries and
//! checks.
//! # Invariants
//! - Nothing of the user's is run or imported.
//! - Work is bounded: nesting by [`DEPTH_MAX`], steps by a budget per question, time by a deadline. A
//!   bound that is hit makes the result unknown, never smaller.
//! - Recursive definitions are solved by iterating to a fixed point; what does not settle is unknown.

mod annotation;
mod attribute;
mod binding;
mod call;
mod certain;
mod class;
mod construct;
mod evidence;
mod expression;
mod field;
mod flow;
mod function;
mod keyword;
mod literal;
mod members;
mod module;
mod narrow;
mod operator;
mod own;
mod relation;
mod special;
mod target;
mod ty;
mod unify;
mod variable;
mod world;

pub(crate) use certain::{Callee, Constructor};
pub(crate) use flow::{Role, enclosing_path};
pub(crate) use members::{Member, MemberKind, Members};
pub(crate) use relation::FileRelations;
pub(crate) use ty::{ClassKey, Ty, TySet};
pub(crate) use world::{Env, Fragment, FrameKind, Known, World};

/// Deepest chain of dependent questions.
pub(crate) const DEPTH_MAX: u32 = 90;
