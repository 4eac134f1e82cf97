//! Scales of the chart: both are logarithmic, in thousandths of a doubling.

use super::labels::Rect;
use crate::extras::backtest::measures::Share;
use crate::extras::svg::interpolate;
use crate::fees::gwei::exact_gwei;

const DOUBLING: u64 = 1000;

/// Vertical scale of shares. Its unit is a halving of the misses, so that 95, 99 and 99.9 % are apart. 100 % is at the
/// top, one halving above the smallest number of misses.
#[derive(Debug)]
pub(crate) struct ShareScale {
    lowest: u64,
    highest: u64,
}

/// Room for labels above and below the points, in pixels.
const LABEL_ROOM: i32 = 32;

/// Ticks in thousandths.
const SHARE_TICKS: [(u32, &str); 10] = [
    (0, "0 %"),
    (500, "50 %"),
    (800, "80 %"),
    (900, "90 %"),
    (950, "95 %"),
    (980, "98 %"),
    (990, "99 %"),
    (995, "99.5 %"),
    (999, "99.9 %"),
    (1000, "100 %"),
];

impl ShareScale {
    pub(crate) fn covering(shares: impl Iterator<Item = Share> + Clone) -> Self {
        let most_quotes = shares.clone().map(|share| share.total).max().unwrap_or(1);
        let highest = milli_log2(most_quotes.into()).saturating_add(DOUBLING);
        let lowest = shares.filter_map(halvings).min().unwrap_or_default();
        let below = SHARE_TICKS.map(|(thousandths, _)| halvings(tick(thousandths)));
        let below = below.into_iter().flatten().filter(|tick| *tick <= lowest).max();
        Self { lowest: below.unwrap_or_default(), highest }
    }

    pub(crate) fn y(&self, share: Share, plot: Rect) -> i32 {
        let height = halvings(share).unwrap_or(self.highest).saturating_sub(self.lowest);
        let most = self.highest.saturating_sub(self.lowest);
        let ends = (plot.bottom - LABEL_ROOM, plot.top + LABEL_ROOM);
        interpolate(ends, height.into(), most.into())
    }

    /// Returns the ticks that are on the scale and not too close to the top.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (Share, String)> + use<> {
        let Self { lowest, highest } = *self;
        SHARE_TICKS.into_iter().filter_map(move |(thousandths, label)| {
            let share = tick(thousandths);
            let fits = halvings(share).is_none_or(|height| {
                height >= lowest && height.saturating_add(DOUBLING / 2) <= highest
            });
            fits.then(|| (share, label.to_owned()))
        })
    }
}

fn tick(thousandths: u32) -> Share {
    Share { hits: thousandths, total: 1000 }
}

/// Returns how often the misses have to be halved from all to those of this share; `None` without a miss.
fn halvings(share: Share) -> Option<u64> {
    const SHIFT: u32 = 20;
    let misses = u128::from(share.total.saturating_sub(share.hits));
    let ratio = (u128::from(share.total) << SHIFT).checked_div(misses)?;
    Some(milli_log2(ratio).saturating_sub(u64::from(SHIFT) * DOUBLING))
}

/// Horizontal scale of costs, with a place for 0 at the left edge.
#[derive(Debug)]
pub(crate) struct CostScale {
    lowest: u64,
    highest: u64,
    lowest_tick: u64,
    has_zero: bool,
    unit: u128,
}

impl CostScale {
    /// Creates a scale of these costs. `unit` is the unit of the labels.
    pub(crate) fn covering(costs: &(impl Iterator<Item = u128> + Clone), unit: u128) -> Self {
        let positive = || costs.clone().filter(|cost| *cost > 0);
        let least = positive().min().unwrap_or(1);
        let most = positive().max().unwrap_or(1);
        let range = milli_log2(most).saturating_sub(milli_log2(least));
        // Room for labels at the edges.
        let padding = (range / 8).max(DOUBLING / 5);
        let has_zero = costs.clone().any(|cost| cost == 0);
        let zero = if has_zero { padding } else { 0 };
        let lowest = milli_log2(least).saturating_sub(padding + zero);
        let highest = milli_log2(most).saturating_add(padding);
        let lowest_tick = lowest + 2 * zero;
        Self { lowest, highest, lowest_tick, has_zero, unit }
    }

    pub(crate) fn x(&self, cost: u128, plot: Rect) -> i32 {
        let most = self.highest.saturating_sub(self.lowest);
        let distance = match cost {
            0 => most / 30,
            cost => milli_log2(cost).saturating_sub(self.lowest),
        };
        interpolate((plot.left, plot.right), distance.into(), most.into())
    }

    /// Returns round costs on the scale: 1, 2, 5, 10, …, or powers of ten if those would be too many.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = (u128, String)> + use<> {
        const MAX_TICKS: usize = 9;
        let Self { lowest_tick, highest, unit, .. } = *self;
        let decades = || std::iter::successors(Some(1_u128), |decade| decade.checked_mul(10));
        let on_scale = |cost: &u128| (lowest_tick..=highest).contains(&milli_log2(*cost));
        let fine: Vec<_> = decades()
            .flat_map(|decade| [1, 2, 5].map(|times| decade.saturating_mul(times)))
            .filter(on_scale)
            .collect();
        let ticks =
            if fine.len() <= MAX_TICKS { fine } else { decades().filter(on_scale).collect() };
        let zero = self.has_zero.then_some(0);
        // `exact_gwei` writes billionths.
        let label = move |cost: u128| exact_gwei(cost.saturating_mul(1_000_000_000 / unit));
        zero.into_iter().chain(ticks).map(move |cost| (cost, label(cost)))
    }
}

/// Returns the logarithm of a positive number to the base of 2, in thousandths, exact at powers of 2 and linear between
/// them.
fn milli_log2(number: u128) -> u64 {
    const FRACTION_BITS: u32 = 10;
    let whole = number.checked_ilog2().unwrap_or_default();
    // The bits below the highest one.
    let fraction = match whole.checked_sub(FRACTION_BITS) {
        Some(surplus) => (number >> surplus) & 0x3ff,
        None => (number << (FRACTION_BITS - whole)) & 0x3ff,
    };
    u64::from(whole) * DOUBLING + u64::try_from(fraction * 1000 / 1024).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Rect = Rect { left: 0, top: -LABEL_ROOM, right: 1000, bottom: 1000 + LABEL_ROOM };

    fn share(hits: u32, total: u32) -> Share {
        Share { hits, total }
    }

    #[test]
    fn halving_the_misses_moves_a_share_by_one_step() {
        let scale = ShareScale::covering([share(0, 512), share(512, 512)].into_iter());
        // Nine halvings from all misses to one, and one more for none.
        let y = [0, 256, 384, 511, 512].map(|hits| scale.y(share(hits, 512), PLOT));
        assert_eq!(y, [1000, 900, 800, 100, 0]);
    }

    #[test]
    fn share_scale_begins_at_the_tick_below_the_lowest_share() {
        let scale = ShareScale::covering([share(96, 100), share(100, 100)].into_iter());
        let labels: Vec<_> = scale.ticks().map(|(_, label)| label).collect();
        assert_eq!(labels, ["95 %", "98 %", "99 %", "100 %"]);
        assert_eq!(scale.y(share(95, 100), PLOT), 1000);
    }

    #[test]
    fn cost_ticks_are_round_and_zero_is_at_the_left() {
        let labels = |costs: &[u128]| {
            let scale = CostScale::covering(&costs.iter().copied(), 1_000_000_000);
            let places: Vec<_> = costs.iter().map(|cost| scale.x(*cost, PLOT)).collect();
            assert!(places.is_sorted() && places.iter().all(|x| (0..=1000).contains(x)));
            scale.ticks().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(labels(&[2_000_000_000, 23_000_000_000]), ["2", "5", "10", "20"]);
        assert_eq!(labels(&[0, 1_500_000, 30_000_000_000]), ["0", "0.01", "0.1", "1", "10", "100"]);
    }
}
