//! A final grade in less than half of the memory: a service holds a thousand of each of hundreds of chains.

use super::MAX_PERCENTILES;
use super::grade::{Grade, TierGrade, TipOutcome};

/// A grade, packed. It is exact for amounts below 2^53 wei, about nine million gwei; larger ones are rounded, and from
/// 2^64 on cut off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedGrade {
    /// By tier, in wei per gas.
    overpaid: [u64; 2],
    /// Base fee and fair tip of the next block; NaN: unknown.
    fair_price: f64,
    /// By tier.
    covered: [PackedOutcomes; 2],
    /// By tier.
    outbid: [PackedOutcomes; 2],
    is_floor: [bool; 2],
    has_tips: Option<bool>,
    tips: TipOutcome,
}

impl From<&Grade> for PackedGrade {
    fn from(grade: &Grade) -> Self {
        let tiers = grade.tiers.each_ref();
        Self {
            overpaid: tiers.map(|tier| u64::try_from(tier.overpaid).unwrap_or(u64::MAX)),
            fair_price: grade.fair_price,
            covered: tiers.map(|tier| PackedOutcomes::new(&tier.covered)),
            outbid: tiers.map(|tier| PackedOutcomes::new(&tier.outbid)),
            is_floor: grade.is_floor,
            has_tips: grade.has_tips,
            tips: grade.tips,
        }
    }
}

impl From<&PackedGrade> for Grade {
    fn from(packed: &PackedGrade) -> Self {
        let tier = |overpaid: u64, covered: PackedOutcomes, outbid: PackedOutcomes| TierGrade {
            overpaid: overpaid.into(),
            price_over_fair: price_over_fair(overpaid, packed.fair_price),
            covered: covered.get(),
            outbid: outbid.get::<MAX_PERCENTILES>(),
        };
        let PackedGrade { overpaid, covered, outbid, .. } = packed;
        Self {
            tiers: [
                tier(overpaid[0], covered[0], outbid[0]),
                tier(overpaid[1], covered[1], outbid[1]),
            ],
            fair_price: packed.fair_price,
            tips: packed.tips,
            is_floor: packed.is_floor,
            has_tips: packed.has_tips,
        }
    }
}

/// Returns the price paid over the fair one; NaN if that is 0 or unknown.
fn price_over_fair(overpaid: u64, fair_price: f64) -> f64 {
    const HALF: f64 = 4_294_967_296.0;
    let half = |bits: u64| f64::from(u32::try_from(bits).unwrap_or(u32::MAX));
    let overpaid = half(overpaid >> u32::BITS).mul_add(HALF, half(overpaid & u64::from(u32::MAX)));
    if fair_price > 0.0 { (fair_price + overpaid) / fair_price } else { f64::NAN }
}

/// At most four outcomes, two bits each.
#[derive(Debug, Clone, Copy)]
struct PackedOutcomes(u8);

impl PackedOutcomes {
    fn new(outcomes: &[Option<bool>]) -> Self {
        let code = |outcome: &Option<bool>| outcome.map_or(0, |is_hit| 1 + u8::from(is_hit));
        Self(outcomes.iter().rev().fold(0, |packed, outcome| (packed << 2) | code(outcome)))
    }

    fn get<const N: usize>(self) -> [Option<bool>; N] {
        let mut rest = self.0;
        [(); N].map(|()| {
            let code = rest & 3;
            rest >>= 2;
            (code > 0).then_some(code > 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_grade_comes_back_as_it_was(
            fair in 1..1_u64 << 52,
            overpaid in proptest::array::uniform2(0..1_u64 << 51),
            covered in proptest::array::uniform2(any::<[Option<bool>; 3]>()),
            outbid in proptest::array::uniform2(any::<[Option<bool>; 4]>()),
            is_floor in any::<[bool; 2]>(),
            has_tips in any::<Option<bool>>(),
        ) {
            let float = |number: u64| number.to_string().parse::<f64>().unwrap();
            let tier = |index: usize| TierGrade {
                overpaid: overpaid[index].into(),
                price_over_fair: float(fair + overpaid[index]) / float(fair),
                covered: covered[index],
                outbid: outbid[index],
            };
            let tiers = [tier(0), tier(1)];
            let fair_price = float(fair);
            let grade = Grade { tiers, fair_price, tips: TipOutcome::Judged, is_floor, has_tips };
            prop_assert_eq!(Grade::from(&PackedGrade::from(&grade)), grade);
        }
    }

    #[test]
    fn a_packed_grade_is_small() {
        assert_eq!(size_of::<PackedGrade>(), 32);
    }
}
