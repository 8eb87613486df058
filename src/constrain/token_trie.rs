//! The vocabulary as a trie over bytes: which tokens start with, or continue, given bytes.
//!
//! # Place
//! Uses `base` and the vocabulary. Built once per model and shared by every automaton.
//! # Invariants
//! - Every id with bytes is in the trie, ids with equal bytes included.
//! - `ids` is in lexicographic order of the tokens' bytes, so the tokens below a node are one range.
//! - Nodes are numbered breadth first, so the children of a node are consecutive and sorted by byte.

use std::ops::Range;

use crate::base::TokenId;

use super::identifier::is_identifier_byte;
use super::{TokenMask, Vocabulary};

/// Index of a node; [`TokenTrie::ROOT`] stands for the empty byte string.
pub(super) type NodeIdx = u32;

#[derive(Clone, Copy, Debug)]
struct Node {
    first_child: u32,
    /// `ids[start..own_end]` have exactly this node's bytes, `ids[start..end]` begin with them.
    start: u32,
    own_end: u32,
    end: u32,
}

/// A vocabulary and its trie.
#[derive(Debug)]
pub struct TokenTrie {
    vocabulary: Vocabulary,
    ids: Vec<TokenId>, // [V with bytes]
    nodes: Vec<Node>,  // [nodes + 1], the last one only bounds the children before it
    bytes: Vec<u8>,    // [nodes], the byte that leads to a node
    /// Child of the root for each byte; 0 when there is none.
    root_children: Box<[NodeIdx; 256]>,
    /// Tokens that begin with a byte that cannot continue an identifier.
    delimiter_first: TokenMask,
}

impl TokenTrie {
    pub(super) const ROOT: NodeIdx = 0;

    /// Build the trie; O(bytes of the vocabulary).
    pub fn new(vocabulary: Vocabulary) -> Self {
        let n_tokens = vocabulary.len();
        let mut ids: Vec<TokenId> = (0..n_tokens as u32)
            .map(TokenId)
            .filter(|&id| !vocabulary.token_bytes(id).is_empty())
            .collect();
        ids.sort_by(|&a, &b| {
            let (a_bytes, b_bytes) = (vocabulary.token_bytes(a), vocabulary.token_bytes(b));
            a_bytes.cmp(b_bytes).then(a.cmp(&b))
        });
        let (nodes, bytes) = lay_out(&vocabulary, &ids);
        let mut root_children = Box::new([0; 256]);
        for child in nodes[0].first_child..nodes[1].first_child {
            root_children[bytes[child as usize] as usize] = child;
        }
        let mut delimiter_first = TokenMask::none(n_tokens);
        for &id in &ids {
            if !is_identifier_byte(vocabulary.token_bytes(id)[0]) {
                delimiter_first.allow(id);
            }
        }
        Self { vocabulary, ids, nodes, bytes, root_children, delimiter_first }
    }

    /// The vocabulary the trie was built from.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Tokens that begin with a byte that cannot continue an identifier.
    pub(super) fn delimiter_first(&self) -> &TokenMask {
        &self.delimiter_first
    }

    /// The child of `node` reached by `byte`.
    pub(super) fn child(&self, node: NodeIdx, byte: u8) -> Option<NodeIdx> {
        if node == Self::ROOT {
            let child = self.root_children[byte as usize];
            return (child != 0).then_some(child);
        }
        let children = self.children(node);
        let bytes = &self.bytes[children.start as usize..children.end as usize];
        bytes.binary_search(&byte).ok().map(|i| children.start + i as u32)
    }

    /// The node of `bytes`, if some token starts with them.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<NodeIdx> {
        bytes.iter().try_fold(Self::ROOT, |node, &byte| self.child(node, byte))
    }

    /// The children of a node, ascending by [`TokenTrie::byte`].
    pub(super) fn children(&self, node: NodeIdx) -> Range<NodeIdx> {
        self.nodes[node as usize].first_child..self.nodes[node as usize + 1].first_child
    }

    /// The bytes that lead to the children of a node, in their order.
    pub(super) fn child_bytes(&self, node: NodeIdx) -> &[u8] {
        let children = self.children(node);
        &self.bytes[children.start as usize..children.end as usize]
    }

    /// The ids whose bytes are exactly the node's.
    pub(super) fn own(&self, node: NodeIdx) -> &[TokenId] {
        let node = &self.nodes[node as usize];
        &self.ids[node.start as usize..node.own_end as usize]
    }

    /// The ids whose bytes begin with the node's, its own included.
    pub(super) fn below(&self, node: NodeIdx) -> &[TokenId] {
        let node = &self.nodes[node as usize];
        &self.ids[node.start as usize..node.end as usize]
    }
}

fn lay_out(vocabulary: &Vocabulary, ids: &[TokenId]) -> (Vec<Node>, Vec<u8>) {
    let mut nodes = vec![Node { first_child: 0, start: 0, own_end: 0, end: ids.len() as u32 }];
    let mut bytes = vec![0];
    // Breadth first: `nodes` is its own queue. All nodes of one level have the same depth.
    let (mut node_idx, mut depth, mut level_end) = (0, 0, 1);
    while node_idx < nodes.len() {
        if node_idx == level_end {
            depth += 1;
            level_end = nodes.len();
        }
        let Node { start, end, .. } = nodes[node_idx];
        let own_end = (start..end)
            .find(|&i| vocabulary.token_bytes(ids[i as usize]).len() > depth)
            .unwrap_or(end);
        nodes[node_idx].first_child = nodes.len() as u32;
        nodes[node_idx].own_end = own_end;
        let mut i = own_end;
        while i < end {
            let byte = vocabulary.token_bytes(ids[i as usize])[depth];
            let group = &ids[i as usize..end as usize];
            let n = group.partition_point(|&id| vocabulary.token_bytes(id)[depth] <= byte) as u32;
            nodes.push(Node { first_child: 0, start: i, own_end: i, end: i + n });
            bytes.push(byte);
            i += n;
        }
        node_idx += 1;
    }
    let n_nodes = nodes.len() as u32;
    nodes.push(Node { first_child: n_nodes, start: 0, own_end: 0, end: 0 });
    (nodes, bytes)
}
