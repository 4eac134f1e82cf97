use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::fees::tests::{GWEI, without_floors};
use crate::fees::{Target, calibrated};

fn matrix_of(blocks: &[EntryBlock], next_base_fee: u128, pricing: &Pricing) -> Option<HorizonFees> {
    let parameters = ChainParameters::from_pricing(pricing);
    HorizonFees::new(blocks, next_base_fee, PricingType::Eip1559, pricing, &parameters)
}

fn block(base_fee: u128, tip: u128) -> EntryBlock {
    EntryBlock { base_fee, tip: Some(tip), high: None }
}

fn tips(matrix: &HorizonFees) -> Vec<u128> {
    matrix.cells().map(|cell| cell.fees.max_priority_fee_per_gas).collect()
}

/// Amounts that come again, near ones, and any.
fn amount() -> impl Strategy<Value = u128> {
    prop_oneof![
        4 => 0..4_u128,
        4 => prop_oneof![Just(GWEI), Just(2 * GWEI)],
        4 => GWEI..3 * GWEI,
        1 => any::<u128>(),
    ]
}

fn any_block() -> impl Strategy<Value = EntryBlock> {
    let tip = prop_oneof![9 => amount().prop_map(Some), 1 => Just(None)];
    (amount(), tip).prop_map(|(base_fee, tip)| EntryBlock { tip, ..block(base_fee, 0) })
}

fn history() -> impl Strategy<Value = Vec<EntryBlock>> {
    prop::collection::vec(any_block(), 200..460)
}

/// The tip of one cell before its order and bounds, by the words of the module.
fn plain_tip(blocks: &[EntryBlock], factor: u128, within: usize, percent: u8) -> Option<u128> {
    let blocks = &blocks[blocks.len().saturating_sub(400)..];
    // Head 0 is the block before the first one.
    let last_head = blocks.len();
    let need = |head: usize| {
        let covered = scale(blocks[head].base_fee, factor);
        let following = &blocks[head..head + within];
        let asks = following.iter().filter_map(|block| {
            let ask = block.tip.filter(|tip| *tip > 0)?;
            Some(ask.saturating_add(block.base_fee.saturating_sub(covered)))
        });
        // The largest amount is as good as unknown.
        asks.min().filter(|need| *need < u128::MAX)
    };
    let missable = 1_000_000 - i64::from(percent) * 10_000;
    let step = 40_000.min(10_000.max(missable / 5));
    let mut level = missable;
    let mut quotes = vec![None; blocks.len() + 1];
    let mut known: Vec<u128> = Vec::new();
    let mut quote = None;
    for now in within..=last_head {
        if let Some(need) = need(now - within) {
            if let Some(quote) = quotes[now - within] {
                let risen = level + step * missable / 1_000_000;
                level = match need.cmp(&quote) {
                    Ordering::Less => risen,
                    Ordering::Greater => risen - step,
                    Ordering::Equal if level > missable => level,
                    Ordering::Equal => risen.min(missable),
                };
                level = level.clamp(-200_000, 2 * missable);
            }
            known.push(need);
            let mut window = known[known.len().saturating_sub(200)..].to_vec();
            window.sort_unstable_by(|one, other| other.cmp(one));
            let position = level.max(0) * (i64::try_from(window.len()).unwrap() + 1) / 1_000_000;
            let position = usize::try_from(position).unwrap().min(window.len());
            quote = Some(if let Some(index) = position.checked_sub(1) {
                window[index]
            } else {
                let raises = (-level + 49_999) / 50_000;
                (0..raises).fold(window[0], |quote, _| quote.saturating_add(quote / 8))
            });
        }
        if known.len() >= 200 {
            quotes[now] = quote;
        }
    }
    quote
}

#[test]
fn a_calm_chain_asks_for_what_its_blocks_asked_for() {
    let blocks = vec![block(7 * GWEI, GWEI); 200];
    let matrix = matrix_of(&blocks, 7 * GWEI + 1, &without_floors()).unwrap();
    let fees = Tier { max_priority_fee_per_gas: GWEI, max_fee_per_gas: 8 * GWEI + 1 };
    let cells: Vec<Cell> = matrix.cells().collect();
    assert_eq!(cells.len(), 24);
    assert!(cells.iter().all(|cell| cell.fees == fees), "{cells:?}");
    assert_eq!(cells[4], Cell { within: 2, percent: 50, fees });
    let next: Vec<_> = matrix.next_block().collect();
    assert_eq!(next, [50, 70, 80, 90, 95, 99].map(|percent| (percent, fees)));
    assert_eq!(matrix_of(&blocks[1..], GWEI, &without_floors()), None);
    let unknown = vec![EntryBlock { tip: None, ..block(GWEI, 0) }; 200];
    assert_eq!(matrix_of(&unknown, GWEI, &without_floors()), None);
    // No block asks for a tip, as on Arbitrum: the tip is the least one.
    let matrix = matrix_of(&vec![block(GWEI, 0); 200], GWEI, &without_floors()).unwrap();
    assert_eq!(tips(&matrix), [1; 24]);
}

#[test]
fn no_tip_exceeds_the_high_rewards_of_the_newest_blocks() {
    // One block of the older ones was dear, and the newest 20 with transactions were not.
    let mut blocks = vec![EntryBlock { high: Some(9), ..block(GWEI, 5) }; 230];
    for dear in &mut blocks[150..200] {
        *dear = EntryBlock { high: Some(90), ..block(GWEI, 80) };
    }
    let highest = |blocks: &[EntryBlock]| {
        let matrix = matrix_of(blocks, GWEI, &without_floors()).unwrap();
        matrix.cells().map(|cell| cell.fees.max_priority_fee_per_gas).max()
    };
    assert_eq!(highest(&blocks), Some(9));
    blocks[215].high = Some(70);
    assert_eq!(highest(&blocks), Some(70));
    // A block without an ask, or with an unknown one, is not one of them.
    for tip in [Some(0), None] {
        let mut blocks = blocks.clone();
        blocks[215].tip = tip;
        assert_eq!(highest(&blocks), Some(9));
    }
    blocks[229].high = None;
    assert_eq!(highest(&blocks), Some(80));
}

#[test]
fn a_base_fee_that_runs_away_shows_as_a_higher_tip() {
    // Every hundred blocks the base fee doubles for ninety blocks, so that no block within 25 is cheap.
    let base_fee = |number: usize| if number % 100 < 10 { GWEI } else { 2 * GWEI };
    let blocks: Vec<_> = (0..400).map(|number| block(base_fee(number), 5)).collect();
    let matrix = matrix_of(&blocks, GWEI, &without_floors()).unwrap();
    let fees: Vec<Tier> = matrix.cells().map(|cell| cell.fees).collect();
    // Within one block the next base fee is all that matters.
    assert_eq!(fees[3].max_priority_fee_per_gas, 5);
    // A tenth of the heads has a rise above the highest factor.
    assert_eq!(fees[3].max_fee_per_gas, GWEI * 3 / 2 + 5);
    assert_eq!(fees[0].max_fee_per_gas, GWEI + 5);
}

#[test]
fn floors_and_ceilings_hold_in_every_cell() {
    let blocks = vec![block(100, 10); 250];
    let cells = |pricing: &Pricing, pricing_type| -> Vec<Tier> {
        let parameters = ChainParameters::from_pricing(pricing);
        let matrix = HorizonFees::new(&blocks, 100, pricing_type, pricing, &parameters).unwrap();
        matrix.cells().map(|cell| cell.fees).chain(matrix.next_block().map(|it| it.1)).collect()
    };
    let all =
        |tip, max_fee| vec![Tier { max_priority_fee_per_gas: tip, max_fee_per_gas: max_fee }; 30];
    let floors = Pricing { base_fee_floor: 300, priority_fee_floor: 20, ..Pricing::default() };
    assert_eq!(cells(&floors, PricingType::Eip1559), all(20, 320));
    // A gas price has no base fee, so its floor is that of the tip.
    assert_eq!(cells(&floors, PricingType::Legacy), all(20, 20));
    let ceilings = Pricing { max_base_fee: 60, max_priority_fee: 4, ..without_floors() };
    assert_eq!(cells(&ceilings, PricingType::Eip1559), all(4, 64));
}

#[test]
fn with_few_rises_the_factor_is_that_of_two_full_blocks() {
    // A base fee of 0 has no rise.
    let blocks = [vec![block(0, 1); 120], vec![block(800, 1); 80]].concat();
    let max_fee = |pricing: &Pricing| {
        let matrix = matrix_of(&blocks, 800, pricing).unwrap();
        matrix.cells().next().unwrap().fees.max_fee_per_gas
    };
    let zero_base_fee = PricingType::Eip1559;
    let pricing = Pricing { zero_base_fee, ..without_floors() };
    // 800 x (9/8)², and the tip.
    assert_eq!(max_fee(&pricing), 1013 + 1);
    let half = Pricing { base_fee_change_denominator: Some(2.try_into().unwrap()), ..pricing };
    assert_eq!(max_fee(&half), 1200 + 1);
    assert_eq!(ratio(5, 0), None);
    assert_eq!(ratio(u128::MAX, u128::MAX), Some(MILLION));
    assert_eq!(ratio(u128::MAX, 1), Some(MAX_FACTOR));
    assert_eq!([scale(3, 1_100_000), scale(u128::MAX, MAX_FACTOR)], [4, u128::MAX]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn tips_follow_a_plain_replay(
        blocks in history(),
        factor in MILLION..=MAX_FACTOR,
        row in 0..WITHIN.len(),
        percent in prop::sample::select(NEXT_BLOCK_PROBABILITIES.to_vec()),
    ) {
        let within = WITHIN[row];
        let newest = &blocks[blocks.len().saturating_sub(BLOCKS)..];
        let found = tip(&needs(newest, factor)[row], percent);
        prop_assert_eq!(found, plain_tip(&blocks, factor, within, percent));
    }

    #[test]
    fn fees_are_ordered_and_bounded(blocks in history(), next in amount(), floors in any::<bool>()) {
        let pricing = if floors {
            Pricing { base_fee_floor: GWEI, priority_fee_floor: 3, ..Pricing::default() }
        } else {
            without_floors()
        };
        let matrix = matrix_of(&blocks, next, &pricing).unwrap();
        let cells: Vec<Cell> = matrix.cells().collect();
        for one in &cells {
            let (tip, max_fee) = (one.fees.max_priority_fee_per_gas, one.fees.max_fee_per_gas);
            prop_assert!(tip >= pricing.priority_fee_floor && tip <= pricing.max_priority_fee);
            prop_assert!(max_fee >= pricing.base_fee_floor + tip);
            prop_assert!(max_fee >= next.min(pricing.max_base_fee) + tip);
            for other in &cells {
                if other.within >= one.within && other.percent <= one.percent {
                    prop_assert!(other.fees.max_priority_fee_per_gas <= tip, "{one:?} {other:?}");
                    prop_assert!(other.fees.max_fee_per_gas <= max_fee, "{one:?} {other:?}");
                }
            }
        }
        let next: Vec<_> = matrix.next_block().collect();
        for pair in next.windows(2) {
            let [(_, below), (_, above)] = [pair[0], pair[1]];
            prop_assert!(below.max_priority_fee_per_gas <= above.max_priority_fee_per_gas);
            prop_assert!(below.max_fee_per_gas <= above.max_fee_per_gas);
        }
        for cell in cells.iter().filter(|cell| cell.within == 1) {
            prop_assert!(next.contains(&(cell.percent, cell.fees)));
        }
    }

    #[test]
    fn older_blocks_do_not_matter(
        older in prop::collection::vec(any_block(), 0..40),
        newest in prop::collection::vec(any_block(), BLOCKS),
    ) {
        let long = [older, newest.clone()].concat();
        let pricing = without_floors();
        prop_assert_eq!(matrix_of(&long, GWEI, &pricing), matrix_of(&newest, GWEI, &pricing));
    }

    #[test]
    fn the_next_block_has_the_calibrated_tip_without_its_limit(
        tips in prop::collection::vec(amount(), 200..=BLOCKS),
        percent in prop::sample::select(NEXT_BLOCK_PROBABILITIES.to_vec()),
    ) {
        let high = Some(u128::MAX);
        let entry = |tip: &u128| EntryBlock { high, ..block(GWEI, (*tip).clamp(1, u128::MAX - 1)) };
        let entries: Vec<_> = tips.iter().map(entry).collect();
        let found = tip(&needs(&entries, MILLION)[0], percent);
        prop_assert_eq!(found, calibrated::tip(&entries, Target::from_percent(percent)));
    }
}
