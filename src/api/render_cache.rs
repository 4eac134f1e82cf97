//! Bodies that are rendered once for each state of a chain.

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;

use crate::store::{ChainStore, PerChain, ServableSnapshot, StoredChain};

/// Renders what depends on a state of a chain at the first request, and keeps it until a request finds another state.
#[derive(Debug)]
pub(crate) struct RenderCache<S, K, V>(PerChain<Mutex<Rendered<S, K, V>>>);

/// State of what is served of a chain. It changes with each publication, and each second after it, because quotes become too
/// old to count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ServedState {
    revision: u64,
    age_seconds: u64,
}

impl ServedState {
    /// Returns the state of the newest snapshot. Nothing must be published meanwhile.
    pub(crate) fn new(chain: &StoredChain, current: &ServableSnapshot) -> Self {
        Self { revision: chain.revision(), age_seconds: current.age.as_secs() }
    }
}

/// The values of one state that were asked for, by key.
#[derive(Debug)]
struct Rendered<S, K, V> {
    state: S,
    values: Vec<(K, V)>,
}

impl<S, K, V> Clone for RenderCache<S, K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Default + PartialEq, K: PartialEq, V: Clone> RenderCache<S, K, V> {
    /// Creates an empty cache for the chains of `store`.
    pub(crate) fn new(store: &ChainStore) -> Self {
        Self(PerChain::new(store, |_| {
            Mutex::new(Rendered { state: S::default(), values: Vec::new() })
        }))
    }

    /// Returns the value of `key` in this state of the chain. One request renders it, and others wait meanwhile. There is no
    /// limit for keys, so they come from a short list.
    pub(crate) fn get_or_render(
        &self,
        chain: &StoredChain,
        state: S,
        key: K,
        render: impl FnOnce() -> V,
    ) -> V {
        let mut rendered = self.0.get(chain).lock();
        if rendered.state != state {
            *rendered = Rendered { state, values: Vec::new() };
        }
        if let Some((_, value)) = rendered.values.iter().find(|(known, _)| *known == key) {
            return value.clone();
        }
        let value = render();
        rendered.values.push((key, value.clone()));
        value
    }
}

/// Serialises a body.
pub(crate) fn json_bytes(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("a struct of numbers and strings serialises").into()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::store::tests::store_with_chain;

    #[test]
    fn a_value_is_rendered_once_for_each_state_and_key() {
        let (store, chain, _) = store_with_chain("");
        let cache = RenderCache::new(&store);
        let renderings = Cell::new(0);
        let get = |state: u64, key: char| {
            let render = || {
                renderings.set(renderings.get() + 1);
                format!("{state}{key}")
            };
            (cache.get_or_render(&chain, state, key, render), renderings.get())
        };
        assert_eq!(get(0, 'a'), ("0a".into(), 1));
        assert_eq!(get(0, 'a'), ("0a".into(), 1));
        assert_eq!(get(0, 'b'), ("0b".into(), 2));
        assert_eq!(get(1, 'a'), ("1a".into(), 3));
        assert_eq!(get(1, 'a'), ("1a".into(), 3));
        assert_eq!(get(0, 'a'), ("0a".into(), 4));
    }
}
