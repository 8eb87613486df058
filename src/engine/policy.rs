//! Choosing a constrained name as a whole: every candidate is evaluated behind the sequence, in a pass of
//! its own, and the best one is what may then be written.
//!
//! # Place
//! Part of `engine`. The trees and their scores belong to `constrain`; this module runs their rows.
//! # Invariants
//! Rows of a tree are never counted as cached: the tokens of the chosen name are fed again as its draft,
//! so a name costs the same cache whatever the policy.

use super::choose::Logits;
use super::{Engine, EngineError, Event};
use crate::constrain::{
    CandidateTree, Distribution, NameAutomaton, NameBeam, NameState, Normalisation, TokenTree,
};
use crate::device::{SeqRows, StepRows};
use crate::model::{AdapterRows, StepInput};
use std::sync::Arc;
use std::time::Instant;

/// How a constrained name is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Token by token, under the exact mask.
    Greedy,
    /// All names at once, the best whole name wins. Names beyond the rows of a pass are those whose
    /// first token is least likely.
    Score(Normalisation),
    /// The best name of a beam search of this width, over all tokenisations.
    Beam(usize),
}

/// Passes of one beam search.
const BEAM_PASSES_MAX: usize = 64;

impl Engine {
    /// Whether a policy has to look at the name that begins at the cursor. The sequence then waits, with
    /// its logits on the host, for a pass of its own.
    pub(super) fn wants_policy(&mut self, i: usize) -> bool {
        let can_score = self.encode.is_some();
        let seq = &mut self.seqs[i];
        let is_on = match seq.selection {
            Selection::Greedy => false,
            Selection::Score(_) => can_score,
            Selection::Beam(_) => true,
        };
        if !is_on || seq.policy_at == Some(seq.tokens.len()) {
            return false;
        }
        let is_open = seq.constraint.as_ref().is_some_and(|c| c.open_name().is_some());
        if is_open {
            seq.wants_policy = true;
            seq.policy_at = Some(seq.tokens.len());
        }
        is_open
    }

    /// Choose a name, then the next token of it. True when the sequence is still in the list.
    pub(super) fn run_policy(
        &mut self,
        i: usize,
        mut logits: Vec<f32>,
        events: &mut Vec<Event>,
    ) -> Result<bool, EngineError> {
        let open = self.seqs[i].constraint.as_ref().and_then(|c| c.open_name());
        if let Some((automaton, state)) = open {
            let n_valid = self.n_valid();
            let root = &logits[..n_valid];
            let name = match self.seqs[i].selection {
                Selection::Greedy => None,
                Selection::Score(by) => self.best_by_score(i, &automaton, state, root, by)?,
                Selection::Beam(width) => self.best_by_beam(i, automaton, state, root, width)?,
            };
            if let (Some(name), Some(constraint)) = (name, &mut self.seqs[i].constraint) {
                constraint.narrow(&name);
            }
        }
        let choice = self.choose(i, Logits::Host(&mut logits), events)?;
        Ok(self.apply(i, choice, Some(logits), events))
    }

    fn best_by_score(
        &mut self,
        i: usize,
        automaton: &NameAutomaton,
        state: NameState,
        root: &[f32],
        by: Normalisation,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(encode) = self.encode.clone() else {
            return Ok(None);
        };
        let root = Distribution::new(root);
        let n_rows = self.tree_rows_max(i);
        let tree = CandidateTree::new(automaton, state, n_rows, &root, |rest| encode(rest));
        if tree.n_names() == 0 {
            return Ok(None);
        }
        let rows = self.tree_pass(i, tree.tokens())?;
        let mut scores = tree.scores(automaton, &root);
        for (node, row) in rows.iter().enumerate() {
            scores.row(node, &Distribution::new(row));
        }
        Ok(scores.ranked(by).into_iter().next().map(|best| best.name))
    }

    fn best_by_beam(
        &mut self,
        i: usize,
        automaton: Arc<NameAutomaton>,
        state: NameState,
        root: &[f32],
        width: usize,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let mut beam = NameBeam::new(automaton, state, width, &Distribution::new(root));
        for _ in 0..BEAM_PASSES_MAX {
            if beam.is_done() {
                break;
            }
            let (tree, ends) = beam.tree();
            if tree.nodes().len() > self.tree_rows_max(i) {
                break; // the names found so far have to do
            }
            let rows = self.tree_pass(i, &tree)?;
            let rows: Vec<Distribution<'_>> =
                ends.iter().map(|&row| Distribution::new(&rows[row as usize])).collect();
            beam.advance(&rows);
        }
        Ok(beam.ranked().into_iter().next().map(|best| best.name))
    }

    /// Rows that a tree behind a sequence may have: the device's, the cache's and the context's.
    fn tree_rows_max(&self, i: usize) -> usize {
        let limits = self.decoder.limits();
        let seq = &self.seqs[i];
        let others = self.n_promised() - seq.n_promised(&self.pool);
        let n_blocks = seq.table.blocks().len() + self.pool.n_free().saturating_sub(others);
        let n_slots = n_blocks * self.pool.block_tokens() - seq.table.n_tokens();
        n_slots.min(limits.logit_rows_max).min(limits.rows_max)
    }

    /// Run a tree behind a fully fed sequence; the logits of all its rows. `[nodes][V]`
    fn tree_pass(&mut self, i: usize, tree: &TokenTree) -> Result<Vec<Vec<f32>>, EngineError> {
        let started = Instant::now();
        let n = tree.nodes().len();
        if n == 0 {
            return Ok(Vec::new());
        }
        let past = self.seqs[i].table.n_tokens();
        let seq = &mut self.seqs[i];
        let adapter = seq.adapter;
        seq.table.reserve(&mut self.pool, n)?;
        let ids: Vec<u32> = tree.nodes().iter().map(|node| node.token.0).collect();
        let positions: Vec<u32> =
            tree.nodes().iter().map(|node| past as u32 + node.depth).collect();
        let slots: Vec<u32> = (past..past + n).map(|p| seq.table.slot(&self.pool, p)).collect();
        let visible = tree.visible();
        let logit_rows: Vec<u32> = (0..n as u32).collect();
        let blocks = seq.table.blocks();
        let seqs = [SeqRows { first_row: 0, n_rows: n, past, blocks, tree: Some(&visible) }];
        let rows = StepRows { n_rows: n, positions: &positions, slots: &slots, seqs: &seqs };
        let adapters = adapter.map(|adapter| AdapterRows { first_row: 0, n_rows: n, adapter });
        let input =
            StepInput { ids: &ids, rows, logit_rows: &logit_rows, adapters: adapters.as_slice() };
        let done = self.decoder.step(self.backend.as_mut(), &input);
        // Blocks beyond the sequence's own share go back at once.
        self.seqs[i].table.truncate(&mut self.pool, past);
        done?;
        let (v, n_valid) = (self.decoder.config().vocab, self.n_valid());
        let mut out = Vec::with_capacity(n);
        for row in 0..n {
            let mut values = vec![0.0; n_valid];
            self.backend.read(self.decoder.logits(), row * v, &mut values)?;
            out.push(values);
        }
        self.times.n_steps += 1;
        self.times.n_rows += n as u64;
        self.times.model += started.elapsed();
        Ok(out)
    }

    /// Tokens of the vocabulary that the model has a logit for.
    pub(super) fn n_valid(&self) -> usize {
        self.vocabulary.len().min(self.decoder.config().vocab)
    }
}
