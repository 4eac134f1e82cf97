//! Runs millions of generated node replies through the code that parses, prices, checks and publishes
//! them. Usage: `cargo bench --bench replies -- [replies] [seed]`
//!
//! Ends at the first violated invariant, or with a table of the outcomes.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the bench ends at an unexpected value"
)]

#[path = "../tests/integration/hostile_replies.rs"]
mod hostile_replies;

use std::time::Instant;

fn main() {
    // cargo adds `--bench`.
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u64>().ok());
    let replies = numbers.next().unwrap_or(10_000_000);
    let seed = numbers.next().unwrap_or(1);
    let threads =
        u64::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap();
    let started = Instant::now();
    let runs: Vec<_> = (0..threads)
        .map(|thread| {
            let seed = seed.wrapping_add(thread << 32);
            std::thread::spawn(move || hostile_replies::run(replies.div_ceil(threads), seed))
        })
        .collect();
    let mut total = hostile_replies::Tally::new();
    for run in runs {
        for (outcome, count) in run.join().expect("no invariant was violated") {
            *total.entry(outcome).or_default() += count;
        }
    }
    println!("{:>12}  outcome", "replies");
    for (outcome, count) in &total {
        println!("{count:>12}  {outcome}");
    }
    println!("{:>12}  in total, in {} s", total.values().sum::<u64>(), started.elapsed().as_secs());
}
