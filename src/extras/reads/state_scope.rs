//! Chain state that the result of a read depends on.

/// Part of the chain state, listed from the one that changes most often to the one that never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StateScope {
    /// The pending block, which changes with every flashblock.
    Pending,
    /// The head, which changes with every block.
    Head,
    /// The block with this number, which a reorg can replace until it is final.
    Block(u64),
    /// Nothing: the result never changes once it exists.
    Fixed,
}

impl StateScope {
    /// Returns the scope of a result that depends on both.
    pub(crate) fn combine(self, other: Self) -> Self {
        match (self, other) {
            (Self::Block(one), Self::Block(two)) => Self::Block(one.max(two)),
            (one, two) => one.min(two),
        }
    }
}
