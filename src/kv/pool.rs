//! The pool of cache blocks: a free list and a reference count for each block.
//!
//! # Place
//! Part of `kv`.

/// Why cache space could not be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    #[error(
        "the key/value cache is full: {need_blocks} blocks needed, {free_blocks} free; run fewer sequences or raise --kv-tokens"
    )]
    PoolFull { need_blocks: usize, free_blocks: usize },
}

/// Blocks `0..n_blocks`, handed out lowest-recently-freed first.
#[derive(Debug)]
pub struct BlockPool {
    free: Vec<u32>,
    pub(super) n_refs: Vec<u32>,
    block_tokens: usize,
}

impl BlockPool {
    /// A pool in which every block is free.
    pub fn new(n_blocks: usize, block_tokens: usize) -> Self {
        assert!(block_tokens > 0, "a block holds at least one token");
        let free = (0..u32::try_from(n_blocks).expect("block counts fit in u32")).rev().collect();
        Self { free, n_refs: vec![0; n_blocks], block_tokens }
    }

    pub fn block_tokens(&self) -> usize {
        self.block_tokens
    }

    pub fn n_blocks(&self) -> usize {
        self.n_refs.len()
    }

    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    /// Blocks needed for `n_tokens`.
    pub fn blocks_for(&self, n_tokens: usize) -> usize {
        n_tokens.div_ceil(self.block_tokens)
    }

    /// Take `n` blocks or none.
    ///
    /// # Errors
    /// When fewer than `n` are free.
    pub(crate) fn take(&mut self, n: usize) -> Result<Vec<u32>, KvError> {
        if n > self.free.len() {
            return Err(KvError::PoolFull { need_blocks: n, free_blocks: self.free.len() });
        }
        let taken = self.free.split_off(self.free.len() - n);
        for &b in &taken {
            debug_assert_eq!(self.n_refs[b as usize], 0, "a free block has no references");
            self.n_refs[b as usize] = 1;
        }
        Ok(taken)
    }

    /// One more table holds the block.
    pub(crate) fn share(&mut self, block: u32) {
        let n = &mut self.n_refs[block as usize];
        assert!(*n > 0, "only a held block can be shared");
        *n += 1;
    }

    /// One table fewer holds the block.
    pub(crate) fn release(&mut self, block: u32) {
        let n = &mut self.n_refs[block as usize];
        assert!(*n > 0, "a block is released once for each holder");
        *n -= 1;
        if *n == 0 {
            self.free.push(block);
        }
    }

    pub(crate) fn is_shared(&self, block: u32) -> bool {
        self.n_refs[block as usize] > 1
    }
}
