//! Chain state that the result of a read depends on.

/// From what changes most often to what never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateScope {
    /// The block in the making: every flashblock.
    Pending,
    /// The head of the chain: every block.
    Head,
    /// The block with this number: a reorg, until it is final.
    Block(u64),
    /// Nothing, once there is an answer.
    Fixed,
}

impl StateScope {
    /// That of an answer which depends on both.
    pub(super) fn combine(self, other: Self) -> Self {
        match (self, other) {
            (Self::Pending, _) | (_, Self::Pending) => Self::Pending,
            (Self::Head, _) | (_, Self::Head) => Self::Head,
            (Self::Block(one), Self::Block(two)) => Self::Block(one.max(two)),
            (Self::Block(number), Self::Fixed) | (Self::Fixed, Self::Block(number)) => {
                Self::Block(number)
            }
            (Self::Fixed, Self::Fixed) => Self::Fixed,
        }
    }
}
