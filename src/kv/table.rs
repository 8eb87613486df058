//! The cached tokens of one sequence: its blocks in order, and how many tokens they hold.
//!
//! # Place
//! Part of `kv`.

use super::{BlockPool, KvError};

/// A sequence's blocks. Must be given back with [`BlockTable::clear`] before it is dropped.
#[derive(Debug, Default)]
pub struct BlockTable {
    blocks: Vec<u32>,
    n_tokens: usize, // S
}

impl BlockTable {
    pub fn new() -> Self {
        Self::default()
    }

    /// Physical blocks, one for every `block_tokens` positions.
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// Tokens whose keys and values are cached.
    pub fn n_tokens(&self) -> usize {
        self.n_tokens
    }

    /// Make room for `n` more tokens, without counting them yet. All or nothing.
    ///
    /// # Errors
    /// When the pool has too few blocks; the table is unchanged then.
    pub fn reserve(&mut self, pool: &mut BlockPool, n: usize) -> Result<(), KvError> {
        let need = pool.blocks_for(self.n_tokens + n).saturating_sub(self.blocks.len());
        self.blocks.extend(pool.take(need)?);
        Ok(())
    }

    /// Copy-on-write: give this table blocks of its own from position `n_tokens` on, and return the
    /// (from, to) pairs whose contents the device must copy.
    ///
    /// # Errors
    /// When the pool is full; the table is unchanged then.
    pub fn make_writable(&mut self, pool: &mut BlockPool) -> Result<Vec<(u32, u32)>, KvError> {
        let first = self.n_tokens / pool.block_tokens();
        let shared: Vec<usize> =
            (first..self.blocks.len()).filter(|&i| pool.is_shared(self.blocks[i])).collect();
        let fresh = pool.take(shared.len())?;
        let mut pairs = Vec::with_capacity(shared.len());
        for (i, to) in shared.into_iter().zip(fresh) {
            let from = std::mem::replace(&mut self.blocks[i], to);
            pool.release(from);
            pairs.push((from, to));
        }
        Ok(pairs)
    }

    /// The cache slot of a position inside the reserved room.
    pub fn slot(&self, pool: &BlockPool, position: usize) -> u32 {
        let bt = pool.block_tokens();
        self.blocks[position / bt] * bt as u32 + (position % bt) as u32
    }

    /// `n` reserved tokens now hold keys and values.
    pub fn commit(&mut self, pool: &BlockPool, n: usize) {
        self.n_tokens += n;
        assert!(
            self.n_tokens <= self.blocks.len() * pool.block_tokens(),
            "only reserved tokens can be committed"
        );
    }

    /// Forget the tokens from `n_tokens` on; blocks that become empty go back to the pool.
    pub fn truncate(&mut self, pool: &mut BlockPool, n_tokens: usize) {
        assert!(n_tokens <= self.n_tokens, "truncation cannot add tokens");
        self.n_tokens = n_tokens;
        let keep = pool.blocks_for(n_tokens);
        for block in self.blocks.drain(keep..) {
            pool.release(block);
        }
    }

    /// A second table over the same tokens; blocks are shared until one of the two writes.
    pub fn fork(&self, pool: &mut BlockPool) -> Self {
        let keep = pool.blocks_for(self.n_tokens);
        for &block in &self.blocks[..keep] {
            pool.share(block);
        }
        Self { blocks: self.blocks[..keep].to_vec(), n_tokens: self.n_tokens }
    }

    /// Give every block back.
    pub fn clear(&mut self, pool: &mut BlockPool) {
        self.truncate(pool, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fork_shares_blocks_until_it_writes() {
        let mut pool = BlockPool::new(4, 4);
        let mut a = BlockTable::new();
        a.reserve(&mut pool, 6).expect("room");
        a.commit(&pool, 6);
        let mut b = a.fork(&mut pool);
        assert_eq!(pool.n_free(), 2);
        let pairs = b.make_writable(&mut pool).expect("room");
        assert_eq!(pairs.len(), 1, "only the half-full last block is copied");
        assert_eq!(pairs[0].0, a.blocks()[1]);
        assert!(a.make_writable(&mut pool).expect("room").is_empty());
        a.clear(&mut pool);
        b.clear(&mut pool);
        assert_eq!(pool.n_free(), 4);
    }

    #[test]
    fn a_full_pool_refuses_and_leaves_the_table_as_it_was() {
        let mut pool = BlockPool::new(2, 4);
        let mut a = BlockTable::new();
        assert_eq!(
            a.reserve(&mut pool, 9),
            Err(KvError::PoolFull { need_blocks: 3, free_blocks: 2 })
        );
        assert_eq!((a.blocks().len(), pool.n_free()), (0, 2));
    }

    proptest! {
        /// Whatever happens, every block is either free or held, and held as often as counted.
        #[test]
        fn blocks_are_never_lost_or_given_twice(ops in prop::collection::vec((0u8..5, 0usize..4, 0usize..20), 1..80)) {
            let mut pool = BlockPool::new(16, 4);
            let mut tables: Vec<BlockTable> = (0..4).map(|_| BlockTable::new()).collect();
            for (op, i, n) in ops {
                match op {
                    0 | 1 => {
                        if tables[i].make_writable(&mut pool).is_ok()
                            && tables[i].reserve(&mut pool, n).is_ok()
                        {
                            tables[i].commit(&pool, n);
                        }
                    }
                    2 => {
                        let keep = n.min(tables[i].n_tokens());
                        tables[i].truncate(&mut pool, keep);
                    }
                    3 => {
                        let fork = tables[i].fork(&mut pool);
                        let j = (i + 1) % 4;
                        tables[j].clear(&mut pool);
                        tables[j] = fork;
                    }
                    _ => tables[i].clear(&mut pool),
                }
                let mut held = [0u32; 16];
                for t in &tables {
                    for &b in t.blocks() {
                        held[b as usize] += 1;
                    }
                    prop_assert!(t.n_tokens() <= t.blocks().len() * 4);
                }
                prop_assert_eq!(&held[..], &pool.n_refs[..]);
                let free = held.iter().filter(|&&n| n == 0).count();
                prop_assert_eq!(free, pool.n_free());
            }
        }
    }
}
