//! Several continuations of one sequence as a tree of tokens, for one forward pass.
//!
//! # Place
//! Uses `base`. Policies and speculation build it; `engine` runs its rows with the visibility the device's
//! tree attention wants.
//! # Invariants
//! - A node's parent comes before it; children of one parent have different tokens.
//! - The root is the sequence's last token: its logits exist before the pass.
//! # Shapes and units
//! One row per node. Bit `j` of row `i` at `visible[i * words + j / 64]`, `words = nodes.div_ceil(64)`, as
//! `SeqRows.tree` has it: a row sees itself and its ancestors.

use rustc_hash::FxHashMap;

use crate::base::TokenId;

/// One row of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNode {
    pub token: TokenId,
    /// `None`: directly behind the sequence.
    pub parent: Option<u32>,
    /// Tokens between the sequence and this one.
    pub depth: u32,
}

/// A tree of tokens behind a sequence.
#[derive(Clone, Debug, Default)]
pub struct TokenTree {
    nodes: Vec<TreeNode>,
    children: FxHashMap<(Option<u32>, TokenId), u32>,
}

impl TokenTree {
    /// No rows yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rows, in order.
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// How many rows a continuation would add.
    pub fn n_missing(&self, tokens: &[TokenId]) -> usize {
        let mut at = None;
        let known = tokens.iter().take_while(|token| {
            let child = self.children.get(&(at, **token));
            at = child.copied().or(at);
            child.is_some()
        });
        tokens.len() - known.count()
    }

    /// Add a continuation; its rows from the first token to the last.
    pub fn insert(&mut self, tokens: &[TokenId]) -> Vec<u32> {
        let mut path: Vec<u32> = Vec::with_capacity(tokens.len());
        for (depth, &token) in (0..).zip(tokens) {
            let parent = path.last().copied();
            let next = self.nodes.len() as u32;
            let node = *self.children.entry((parent, token)).or_insert(next);
            if node == next {
                self.nodes.push(TreeNode { token, parent, depth });
            }
            path.push(node);
        }
        path
    }

    /// Which rows each row sees.
    pub fn visible(&self) -> Vec<u64> {
        let words = self.nodes.len().div_ceil(64);
        let mut bits = vec![0u64; self.nodes.len() * words];
        for (i, node) in self.nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                let (before, row) = bits.split_at_mut(i * words);
                row[..words].copy_from_slice(&before[parent as usize * words..][..words]);
            }
            bits[i * words + i / 64] |= 1 << (i % 64);
        }
        bits
    }
}
