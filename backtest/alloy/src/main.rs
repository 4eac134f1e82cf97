//! Reads lines of amounts in wei, a base fee and the rewards of some blocks, and prints the tip and the max fee that
//! alloy estimates from each line.

use std::io;

use alloy_provider::utils::eip1559_default_estimator;

fn main() -> io::Result<()> {
    for line in io::stdin().lines() {
        let line = line?;
        let amounts: Result<Vec<u128>, _> = line.split(' ').map(str::parse).collect();
        let amounts = amounts.map_err(io::Error::other)?;
        let Some((base_fee, rewards)) = amounts.split_first() else {
            return Err(io::Error::other("an empty line"));
        };
        let rewards: Vec<_> = rewards.iter().map(|reward| vec![*reward]).collect();
        let estimate = eip1559_default_estimator(*base_fee, &rewards);
        println!("{} {}", estimate.max_priority_fee_per_gas, estimate.max_fee_per_gas);
    }
    Ok(())
}
