//! Values that belong to chains.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ChainStore, StoredChain};

/// One value for each chain of a store. Cheap to clone.
#[derive(Debug)]
pub struct PerChain<T>(Arc<BTreeMap<u64, T>>);

impl<T> Clone for PerChain<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PerChain<T> {
    /// Creates a value for each chain of `store`.
    pub fn new(store: &ChainStore, create: impl Fn(&StoredChain) -> T) -> Self {
        let value = |chain: &StoredChain| (chain.config().chain_id, create(chain));
        Self(Arc::new(store.chains().iter().map(value).collect()))
    }

    /// Returns the value of a chain of the store that this was created for.
    ///
    /// # Panics
    ///
    /// Panics for a chain of another store.
    #[must_use]
    pub fn get(&self, chain: &StoredChain) -> &T {
        self.0.get(&chain.config().chain_id).expect("the chain belongs to the same store")
    }
}
