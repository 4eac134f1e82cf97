//! Doubts about values that were published although they cannot follow from the blocks before.

use std::collections::BTreeMap;

use crate::fees::plausibility::{self, Doubt, SuspiciousReply};
use crate::fees::{FeeHistory, Pricing};

/// Doubts of one chain that last while the doubtful value is in the window.
#[derive(Debug, Default)]
pub(crate) struct DoubtLog {
    /// Last head whose window has the value.
    until: BTreeMap<Doubt, u64>,
    /// True while another upstream lastingly says otherwise.
    has_disagreement: bool,
}

impl DoubtLog {
    /// Records that the only node there is has repeated a suspicious reply, which is published now with this `head`. Returns
    /// true if the doubt is new.
    pub(crate) fn record(
        &mut self,
        reason: SuspiciousReply,
        head: u64,
        window_blocks: usize,
    ) -> bool {
        let blocks = u64::try_from(window_blocks).unwrap_or(u64::MAX);
        let left_window = head.saturating_add(blocks).saturating_sub(1);
        let (doubt, until) = match reason {
            // The replies stay suspicious until the leap has left the window.
            SuspiciousReply::BaseFeeLeap => (Doubt::BaseFeeLeap, head),
            SuspiciousReply::Rewritten => (Doubt::BaseFeeLeap, left_window),
            SuspiciousReply::Regression | SuspiciousReply::Jump => (Doubt::HeadLeap, left_window),
        };
        // After a reset of the chain the blocks of before do not come back.
        for known in self.until.values_mut() {
            *known = left_window.min(*known);
        }
        let known = self.until.get(&doubt).copied();
        self.until.insert(doubt, known.unwrap_or(until).max(until));
        known.is_none()
    }

    /// Says whether another upstream lastingly disagrees with the one in use.
    pub(crate) fn set_disagreement(&mut self, has_disagreement: bool) {
        self.has_disagreement = has_disagreement;
    }

    /// Returns the doubts about the window of a reply. Those that have left it are forgotten.
    pub(crate) fn current(&mut self, history: &FeeHistory, pricing: &Pricing) -> Vec<Doubt> {
        let head = history.newest_block();
        self.until.retain(|_, until| *until >= head);
        let mut doubts: Vec<Doubt> = self.until.keys().copied().collect();
        let window = history.newest(pricing.window_blocks.get());
        if plausibility::count_outlying_rewards(window, pricing) > 0 {
            doubts.push(Doubt::RewardLeap);
        }
        if self.has_disagreement {
            doubts.push(Doubt::Disagreement);
        }
        doubts.sort_unstable();
        doubts
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::fees::Block;

    fn history(head: u64, rewards: &[u128]) -> FeeHistory {
        let block = |medium: &u128| Block {
            base_fee: 1,
            gas_used_ratio: None,
            rewards: Some([*medium, 0]),
        };
        let oldest = head + 1 - u64::try_from(rewards.len()).unwrap();
        FeeHistory::new(oldest, rewards.iter().map(block).collect(), None).unwrap()
    }

    fn with_window_of_4() -> Pricing {
        Pricing { window_blocks: NonZeroUsize::new(4).unwrap(), ..Pricing::default() }
    }

    #[test]
    fn a_doubt_lasts_while_its_value_is_in_the_window() {
        let mut doubts = DoubtLog::default();
        let mut at = |head| doubts.current(&history(head, &[1; 4]), &with_window_of_4());
        assert_eq!(at(100), []);
        doubts.record(SuspiciousReply::Jump, 100, 4);
        doubts.record(SuspiciousReply::BaseFeeLeap, 100, 4);
        let mut at = |head| doubts.current(&history(head, &[1; 4]), &with_window_of_4());
        assert_eq!(at(100), [Doubt::BaseFeeLeap, Doubt::HeadLeap]);
        assert_eq!(at(101), [Doubt::HeadLeap]);
        assert_eq!(at(103), [Doubt::HeadLeap]);
        assert_eq!(at(104), []);
        doubts.set_disagreement(true);
        let at = doubts.current(&history(200, &[1; 4]), &with_window_of_4());
        assert_eq!(at, [Doubt::Disagreement]);
        doubts.set_disagreement(false);
        assert_eq!(doubts.current(&history(201, &[1; 4]), &with_window_of_4()), []);
        // The chain begins anew.
        doubts.record(SuspiciousReply::Rewritten, 200, 4);
        doubts.record(SuspiciousReply::Regression, 10, 4);
        let both = [Doubt::BaseFeeLeap, Doubt::HeadLeap];
        assert_eq!(doubts.current(&history(13, &[1; 4]), &with_window_of_4()), both);
        assert_eq!(doubts.current(&history(14, &[1; 4]), &with_window_of_4()), []);
    }

    #[test]
    fn a_reward_leaps_from_a_median_above_zero_only() {
        let mut doubts = DoubtLog::default();
        let mut of_rewards =
            |rewards: &[u128]| doubts.current(&history(9, rewards), &with_window_of_4());
        assert_eq!(of_rewards(&[2, 2, 2, 2001]), [Doubt::RewardLeap]);
        assert_eq!(of_rewards(&[2, 2, 2, 2000]), []);
        assert_eq!(of_rewards(&[0, 0, 0, 1_000_000]), []);
        // The block has left the window.
        assert_eq!(of_rewards(&[2001, 2, 2, 2, 2]), []);
    }
}
