//! Answers that may be used again, and for how long.

use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;

use crate::config;
use crate::rpc::Answer;

/// The kept answers of all chains. Whoever asks for what is not in it makes it, while others who ask
/// for the same wait.
pub(super) type Answers = Cache<Key, Kept>;

/// What all kept answers may take together.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Nothing kept yet.
pub(super) fn answers() -> Answers {
    Cache::builder()
        .weigher(|_: &Key, kept: &Kept| kept.weight())
        .max_capacity(MAX_BYTES)
        .expire_after(WhileGood)
        .build()
}

/// What makes two reads the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) chain_id: u64,
    /// What was known of the chain's head, for an answer that holds at most until that changes: a
    /// client that was told of a block must not be shown what was before it.
    pub(super) head: Option<Head>,
    pub(super) method: &'static str,
    /// An answer that is kept is not for those who want none.
    pub(super) reuse: Reuse,
    /// Of the parameters as they came: a digest takes no more memory for long ones.
    pub(super) params: [u8; 32],
}

/// For how long others may have an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reuse {
    /// Until what it depends on may have changed, as far as the polls know.
    WhileGood,
    /// As long as it is not there yet: whoever comes later may know of a newer block.
    WhileUnderWay,
    Never,
}

/// The newest block that the polls have seen, and how often an answer has told of another.
pub(super) type Head = (Option<u64>, u64);

/// How long an answer can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Only for those who ask while it is under way.
    Never,
    /// At most until the next flashblock; not at all on a chain without them.
    Flashblock,
    /// Until the polls see another block, at most one block time.
    UntilNextBlock,
    /// Once there is one, it stays the same.
    Long,
}

/// An answer that may be used again.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) answer: Answer,
    good_until: Instant,
}

impl Kept {
    /// What stays the same is still asked for now and then, as the chain id is.
    const LONG: Duration = Duration::from_mins(10);
    /// What the cache itself takes for an entry, about.
    const ENTRY_BYTES: usize = 512;

    /// An answer to what was `asked` then: it may be as old as the question.
    pub(super) fn new(answer: Answer, asked: Instant, hold: Hold, chain: &config::Chain) -> Self {
        let flashblock = chain.flashblock_time.unwrap_or_default();
        let good_for = match (hold, &answer) {
            (Hold::Never, _) => Duration::ZERO,
            (Hold::UntilNextBlock, Answer::Result(_)) => chain.block_time,
            (Hold::Long, Answer::Result(json)) if !is_absence(json) => Self::LONG,
            // What failed may succeed the next time, and a node that does not have it yet will.
            (Hold::UntilNextBlock | Hold::Long | Hold::Flashblock, _) => flashblock,
        };
        Self { answer, good_until: asked + good_for }
    }

    /// In bytes.
    fn weight(&self) -> u32 {
        let (Answer::Result(json) | Answer::Error(json)) = &self.answer;
        u32::try_from(json.len().saturating_add(Self::ENTRY_BYTES)).unwrap_or(u32::MAX)
    }

    pub(super) fn good_for(&self, from: Instant) -> Duration {
        self.good_until.saturating_duration_since(from)
    }
}

/// What nodes say of a block that they do not have, some of them also of its logs.
fn is_absence(json: &[u8]) -> bool {
    matches!(json, b"null" | b"[]")
}

/// Ends an entry when its answer is no longer good.
struct WhileGood;

impl Expiry<Key, Kept> for WhileGood {
    fn expire_after_create(&self, _: &Key, kept: &Kept, created_at: Instant) -> Option<Duration> {
        Some(kept.good_for(created_at))
    }

    fn expire_after_update(
        &self,
        _: &Key,
        kept: &Kept,
        updated_at: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(kept.good_for(updated_at))
    }
}
