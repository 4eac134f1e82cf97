//! What the reads of clients have learned of one node.
//!
//! The polls do not go by it, and it blames a node only for what a client can hardly have caused: the
//! call may be one that no node answers well. Pure but for the [`Error`]s that it looks at.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::Error;
use super::health::{Health, Penalty, Standing};

/// One node's record.
#[derive(Debug)]
pub(super) struct ReadRecord {
    health: Health,
    /// When the node last proved to a read to serve the configured chain.
    chain_checked: Option<Instant>,
    succeeded: Option<Instant>,
    /// Since when it has been silent about a call that was given up; `None`: it has answered since.
    silent_since: Option<Instant>,
    /// When it was last blamed, or broke off, after which it has to prove its chain again.
    failed: Option<Instant>,
    /// When it last failed to prove it.
    check_failed: Option<Instant>,
    /// Failures since the last success that the calls may have caused.
    doubts: u32,
    /// Whether it was blamed and has answered nothing since.
    is_on_probation: bool,
    /// When a read was last let through to find out whether it is back.
    probed: Option<Instant>,
    /// The methods that it did not have, with the time from which on that counts no more.
    unsupported: HashMap<String, Instant>,
    /// Those that it has answered: it does have them, whatever it says of one call.
    supported: HashSet<String>,
}

impl ReadRecord {
    /// How long a node may think about a call before others are asked too.
    pub(super) const PATIENCE: Duration = Duration::from_secs(2);
    const DOUBTS: u32 = 3;
    const PROBE_INTERVAL: Duration = Duration::from_secs(10);
    const UNSUPPORTED: Duration = Duration::from_mins(1);

    /// A node of which nothing is known, of a chain with this block time.
    pub(super) fn new(block_time: Duration) -> Self {
        Self {
            health: Health::new(block_time),
            chain_checked: None,
            succeeded: None,
            silent_since: None,
            failed: None,
            check_failed: None,
            doubts: 0,
            is_on_probation: false,
            probed: None,
            unsupported: HashMap::new(),
            supported: HashSet::new(),
        }
    }

    /// When the node is to be asked by a read. After a rest one read finds out whether it is back,
    /// while the others go on as if it were not.
    pub(super) fn standing(&mut self, now: Instant) -> Standing {
        let standing = self.health.standing(now);
        if standing != Standing::Well || !self.is_on_probation {
            return standing;
        }
        let is_probed = |at: Instant| now.saturating_duration_since(at) < Self::PROBE_INTERVAL;
        if self.probed.is_some_and(is_probed) {
            return Standing::Resting;
        }
        self.probed = Some(now);
        Standing::Well
    }

    pub(super) fn is_rate_limited(&self, now: Instant) -> bool {
        self.health.is_rate_limited(now)
    }

    /// Whether it said lately that it does not have the method.
    pub(super) fn lacks(&self, method: &str, now: Instant) -> bool {
        self.unsupported.get(method).is_some_and(|until| now < *until)
    }

    /// Whether it has proved its chain, to a poll or a read, within `validity` and since the last failure.
    pub(super) fn is_chain_known(
        &self,
        of_polls: Option<Instant>,
        now: Instant,
        validity: Duration,
    ) -> bool {
        of_polls.max(self.chain_checked).is_some_and(|at| {
            let is_recent = now.saturating_duration_since(at) < validity;
            is_recent && self.failed.is_none_or(|failed| failed < at)
        })
    }

    /// Takes note that it has proved its chain, by which it answers again.
    pub(super) fn checked_chain(&mut self, now: Instant) {
        self.chain_checked = Some(now);
        self.is_back(now);
    }

    pub(super) fn failed_check(&mut self, error: &Error, now: Instant) {
        self.check_failed = Some(now);
        self.failed(error, "eth_chainId", now);
    }

    /// Forgets a proof of the chain from before `since`.
    pub(super) fn doubt_chain_before(&mut self, since: Instant) {
        self.chain_checked = self.chain_checked.filter(|at| *at >= since);
    }

    /// Whether it has failed to prove its chain since then.
    pub(super) fn has_failed_check_since(&self, since: Instant) -> bool {
        self.check_failed.is_some_and(|at| at >= since)
    }

    pub(super) fn succeeded(&mut self, method: &str, now: Instant) {
        self.is_back(now);
        self.unsupported.remove(method);
        if !self.supported.contains(method) {
            self.supported.insert(method.to_owned());
        }
    }

    fn is_back(&mut self, now: Instant) {
        self.health.succeeded();
        (self.succeeded, self.silent_since) = (Some(now), None);
        self.doubts = 0;
        (self.is_on_probation, self.probed) = (false, None);
    }

    pub(super) fn failed(&mut self, error: &Error, method: &str, now: Instant) {
        let penalty = match error {
            Error::Unsupported if self.supported.contains(method) => return,
            Error::Unsupported => {
                self.unsupported.insert(method.to_owned(), now + Self::UNSUPPORTED);
                return;
            }
            error if is_of_the_call(error) => return,
            Error::Unreachable(_) => Penalty::Rest,
            Error::RateLimited(_) | Error::WrongChain { .. } => error.penalty(),
            _ => {
                self.doubts = self.doubts.saturating_add(1);
                if matches!(error, Error::Transport(_)) {
                    // Something else may listen there by now.
                    self.failed = Some(now);
                }
                if self.doubts < Self::DOUBTS {
                    return;
                }
                Penalty::Rest
            }
        };
        self.blame(penalty, now);
    }

    /// Takes note that a call was given up that the node had been silent about since then. Calls can be
    /// made to take long: it counts only where the node has answered nothing else meanwhile.
    pub(super) fn was_silent(&mut self, since: Instant, now: Instant) {
        if self.succeeded.is_some_and(|at| at >= since) {
            return;
        }
        // Calls that are given up before long count together.
        let since = self.silent_since.map_or(since, |earlier| earlier.min(since));
        self.silent_since = Some(since);
        if now.saturating_duration_since(since) >= Self::PATIENCE {
            self.blame(Penalty::LongRest, now);
        }
    }

    fn blame(&mut self, penalty: Penalty, now: Instant) {
        self.failed = Some(now);
        (self.is_on_probation, self.probed) = (true, None);
        // Reads that fail together are one failure.
        if penalty != Penalty::Rest || self.health.standing(now) == Standing::Well {
            self.health.failed(penalty, now);
        }
    }
}

/// Whether it says more of the call than of the node.
fn is_of_the_call(error: &Error) -> bool {
    /// Statuses by which gateways refuse one request: bad, too large, too long, of a wrong kind.
    const STATUSES: [u16; 7] = [400, 411, 413, 414, 415, 422, 431];
    match error {
        Error::Status(status, _) => STATUSES.contains(status),
        Error::BeyondHead | Error::TooLarge(_) | Error::NoMemory(_) | Error::Unchecked => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Excerpt;

    const BLOCK: Duration = Duration::from_secs(2);

    fn record() -> (ReadRecord, Instant) {
        (ReadRecord::new(BLOCK), Instant::now())
    }

    fn status(status: u16) -> Error {
        Error::Status(status, Excerpt::default())
    }

    #[test]
    fn what_a_call_may_have_caused_counts_the_third_time_in_a_row() {
        let (mut record, now) = record();
        for _ in 0..2 {
            record.failed(&status(500), "m", now);
            record.failed(&status(500), "m", now);
            assert_eq!(record.standing(now), Standing::Well);
            record.succeeded("m", now);
        }
        for _ in 0..3 {
            record.failed(&Error::InvalidReply(""), "m", now);
        }
        assert_eq!(record.standing(now), Standing::Resting);
        // Those that fail together make the rest no longer.
        for _ in 0..100 {
            record.failed(&status(500), "m", now);
        }
        assert_eq!(record.standing(now + BLOCK), Standing::Well);
    }

    #[test]
    fn what_says_more_of_the_call_counts_never() {
        let (mut record, now) = record();
        for _ in 0..10 {
            for error in [status(413), status(400), Error::TooLarge(1), Error::Unchecked] {
                record.failed(&error, "m", now);
            }
        }
        assert_eq!(record.standing(now), Standing::Well);
        assert!(record.is_chain_known(Some(now), now + BLOCK, Duration::from_mins(1)));
    }

    #[test]
    fn silence_counts_when_it_was_long_and_about_everything() {
        let (mut record, now) = record();
        let at = |millis| now + Duration::from_millis(millis);
        record.was_silent(at(0), at(1999));
        record.succeeded("m", at(2000));
        record.was_silent(at(2000), at(5000));
        assert_eq!(record.standing(at(5000)), Standing::Well);
        record.was_silent(at(5000), at(7000));
        assert_eq!(record.standing(at(7000)), Standing::Resting);
    }

    #[test]
    fn silence_about_calls_that_are_given_up_soon_adds_up() {
        let (mut record, now) = record();
        let at = |millis| now + Duration::from_millis(millis);
        record.was_silent(at(0), at(900));
        record.was_silent(at(1000), at(1900));
        assert_eq!(record.standing(at(1900)), Standing::Well);
        record.was_silent(at(2000), at(2900));
        assert_eq!(record.standing(at(2900)), Standing::Resting);
    }

    #[test]
    fn the_proof_of_the_chain_tells_that_a_node_is_back() {
        let (mut record, now) = record();
        record.was_silent(now, now + ReadRecord::PATIENCE);
        let rested = now + Duration::from_mins(1);
        assert_eq!(
            [record.standing(rested), record.standing(rested)].map(|one| one == Standing::Well),
            [true, false]
        );
        record.checked_chain(rested);
        assert_eq!(record.standing(rested), Standing::Well);
        // A slow call from before that says nothing any more.
        record.was_silent(rested, rested + ReadRecord::PATIENCE);
        assert_eq!(record.standing(rested + ReadRecord::PATIENCE), Standing::Well);
    }

    #[test]
    fn one_read_at_a_time_finds_out_whether_a_node_is_back() {
        let (mut record, now) = record();
        let now = now + ReadRecord::PATIENCE;
        record.was_silent(now.checked_sub(ReadRecord::PATIENCE).unwrap(), now);
        assert_eq!(record.standing(now), Standing::Resting);
        let rested = now + Duration::from_secs(30);
        assert_eq!(record.standing(rested), Standing::Well);
        assert_eq!(record.standing(rested), Standing::Resting);
        assert_eq!(record.standing(rested + ReadRecord::PROBE_INTERVAL), Standing::Well);
        record.succeeded("m", rested);
        assert_eq!([record.standing(rested), record.standing(rested)], [Standing::Well; 2]);
    }

    #[test]
    fn a_missing_method_is_remembered_until_it_is_answered() {
        let (mut record, now) = record();
        record.failed(&Error::Unsupported, "m", now);
        assert!(record.lacks("m", now) && !record.lacks("n", now));
        assert!(!record.lacks("m", now + ReadRecord::UNSUPPORTED));
        record.succeeded("m", now);
        assert!(!record.lacks("m", now));
        // From then on it is one call that it means.
        record.failed(&Error::Unsupported, "m", now);
        assert!(!record.lacks("m", now));
    }

    #[test]
    fn a_failure_calls_for_another_proof_of_the_chain() {
        let (mut record, now) = record();
        let (minute, later) = (Duration::from_mins(1), now + Duration::from_secs(1));
        assert!(!record.is_chain_known(None, now, minute));
        assert!(record.is_chain_known(Some(now), later, minute));
        assert!(!record.is_chain_known(Some(now), now + minute, minute));
        record.failed(&status(500), "m", later);
        assert!(record.is_chain_known(Some(now), later, minute));
        (0..2).for_each(|_| record.failed(&status(500), "m", later));
        assert!(!record.is_chain_known(Some(now), later, minute));
        record.failed_check(&status(500), later);
        assert!(
            record.has_failed_check_since(later) && !record.has_failed_check_since(later + BLOCK)
        );
        record.checked_chain(later + Duration::from_millis(1));
        assert!(record.is_chain_known(None, later + BLOCK, minute));
        record.doubt_chain_before(later + BLOCK);
        assert!(!record.is_chain_known(Some(now), later + BLOCK, minute));
    }
}
