//! How likely a given text is: the best token and the log-probability of the true one at every position.
//!
//! # Place
//! Part of `engine`; for measurements. Takes cache of its own and gives it back.

use super::{Engine, EngineError};
use crate::device::{SeqRows, StepRows};
use crate::kv::BlockTable;
use crate::model::StepInput;

/// One position of a scored text: what the model says about the token after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The most likely next token.
    pub best: u32,
    /// `-ln p(next token)`; `None` at the last position, which has no next token.
    pub nll: Option<f64>,
}

impl Engine {
    /// Score every position of `ids`.
    ///
    /// # Errors
    /// As [`Engine::submit`] for texts that do not fit, as [`Engine::step`] for a lost device.
    pub fn score(&mut self, ids: &[u32]) -> Result<Vec<Scored>, EngineError> {
        let context = self.decoder.config().context;
        if ids.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if ids.len() > context {
            return Err(EngineError::ContextOverflow {
                prompt_tokens: ids.len(),
                wanted_tokens: 0,
                context_tokens: context,
            });
        }
        let mut table = BlockTable::new();
        let result = self.score_with(&mut table, ids);
        table.clear(&mut self.pool);
        result
    }

    fn score_with(
        &mut self,
        table: &mut BlockTable,
        ids: &[u32],
    ) -> Result<Vec<Scored>, EngineError> {
        let v = self.decoder.config().vocab;
        let chunk = self.decoder.limits().logit_rows_max;
        let mut logits = vec![0.0; chunk * v];
        let mut scored = Vec::with_capacity(ids.len());
        for part in ids.chunks(chunk) {
            let (n, past) = (part.len(), table.n_tokens());
            table.reserve(&mut self.pool, n)?;
            let positions: Vec<u32> = (past as u32..(past + n) as u32).collect();
            let slots: Vec<u32> = (past..past + n).map(|p| table.slot(&self.pool, p)).collect();
            let seqs =
                [SeqRows { first_row: 0, n_rows: n, past, blocks: table.blocks(), tree: None }];
            let rows = StepRows { n_rows: n, positions: &positions, slots: &slots, seqs: &seqs };
            let logit_rows: Vec<u32> = (0..n as u32).collect();
            let input = StepInput { ids: part, rows, logit_rows: &logit_rows, adapters: &[] };
            self.decoder.step(self.backend.as_mut(), &input)?;
            table.commit(&self.pool, n);
            self.backend.read(self.decoder.logits(), 0, &mut logits[..n * v])?;
            for (i, row) in logits[..n * v].chunks_exact(v).enumerate() {
                scored.push(score_row(row, ids.get(past + i + 1).copied()));
            }
        }
        Ok(scored)
    }
}

fn score_row(row: &[f32], next: Option<u32>) -> Scored {
    let mut best = 0;
    for (id, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = id;
        }
    }
    let top = f64::from(row[best]);
    let nll = next.map(|id| {
        let sum: f64 = row.iter().map(|&x| (f64::from(x) - top).exp()).sum();
        sum.ln() + top - f64::from(row[id as usize])
    });
    Scored { best: best as u32, nll }
}
