//! Fees that a transaction on an OP Stack chain pays beside its gas: for its data on the chain below (L1), and to the
//! operator. Pure integer arithmetic.
//!
//! The parameters are those of the L1 attributes deposit, the first transaction of each block (OP Stack specification,
//! "L1 attributes deposited transaction", and "Fjord", "Isthmus" and "Jovian": execution engine).

use std::ops::Range;

use alloy_primitives::U256;
use op_alloy_flz::{L1_COST_FASTLZ_COEF, L1_COST_INTERCEPT, MIN_TX_SIZE_SCALED};
use serde::Serialize;
use utoipa::ToSchema;

use super::chain_keys::DataFeeKind;

/// Fork of an OP Stack chain whose rule applies.
//
// The newest one that the deposit shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = DataFeeRule)]
pub(crate) enum Rule {
    Fjord,
    Isthmus,
    Jovian,
    /// Mantle's.
    Arsia,
}

/// Parameters of the fees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) rule: Rule,
    pub(crate) base_fee_scalar: u32,
    pub(crate) blob_base_fee_scalar: u32,
    /// Number of the L1 block.
    pub(crate) l1_block: u64,
    /// In wei per gas of L1.
    pub(crate) l1_base_fee: u128,
    /// In wei per blob gas of L1.
    pub(crate) l1_blob_base_fee: u128,
    pub(crate) operator_fee_scalar: u32,
    /// In wei.
    pub(crate) operator_fee_constant: u64,
    /// Price of ETH in the chain's coin, which multiplies the L1 fee; 1 but on Mantle.
    pub(crate) token_ratio: u64,
}

impl Attributes {
    /// Selectors and lengths of the deposit's input.
    const RULES: [([u8; 4], usize, Rule); 4] = [
        ([0x44, 0x0a, 0x5e, 0x20], 164, Rule::Fjord),
        ([0x09, 0x89, 0x99, 0xbe], 176, Rule::Isthmus),
        ([0x3d, 0xb6, 0xbe, 0x2b], 178, Rule::Jovian),
        // op-node of mantlenetworkio/mantle-v2: the layout of Jovian.
        ([0x49, 0xe7, 0x23, 0x83], 178, Rule::Arsia),
    ];

    /// Parses the input of a deposit. `None`: it is that of another fork, whose rule is not known, or an amount exceeds 128
    /// bits.
    pub(crate) fn parse(input: &[u8]) -> Option<Self> {
        let is_known = |(selector, length, _): &&([u8; 4], usize, Rule)| {
            input.starts_with(selector) && input.len() == *length
        };
        let (_, _, rule) = Self::RULES.iter().find(is_known)?;
        let has_operator_fee = *rule != Rule::Fjord;
        Some(Self {
            rule: *rule,
            base_fee_scalar: number(input, 4..8)?,
            blob_base_fee_scalar: number(input, 8..12)?,
            l1_block: number(input, 28..36)?,
            l1_base_fee: number(input, 36..68)?,
            l1_blob_base_fee: number(input, 68..100)?,
            operator_fee_scalar: if has_operator_fee { number(input, 164..168)? } else { 0 },
            operator_fee_constant: if has_operator_fee { number(input, 168..176)? } else { 0 },
            token_ratio: 1,
        })
    }

    /// Returns the kind of the fee.
    pub(super) fn kind(&self) -> DataFeeKind {
        if self.rule == Rule::Arsia { DataFeeKind::Mantle } else { DataFeeKind::OpStack }
    }

    /// Returns all parameters that are amounts.
    pub(super) fn amounts(&self) -> [u128; 7] {
        [
            self.base_fee_scalar.into(),
            self.blob_base_fee_scalar.into(),
            self.l1_base_fee,
            self.l1_blob_base_fee,
            self.operator_fee_scalar.into(),
            self.operator_fee_constant.into(),
            self.token_ratio.into(),
        ]
    }

    /// Returns the L1 fee in wei of a transaction whose compressed length is estimated from this FastLZ length. `None`: it
    /// exceeds 128 bits. Sources: specification of Fjord, "Fees"; `rollup_cost.go` of mantle-xyz/op-geth.
    pub(crate) fn l1_fee(&self, fast_lz_length: u64) -> Option<u128> {
        const SCALE: u128 = 1_000_000_000_000;
        let size = u128::from(L1_COST_FASTLZ_COEF).checked_mul(fast_lz_length.into())?;
        let size = size.saturating_sub(L1_COST_INTERCEPT.into()).max(MIN_TX_SIZE_SCALED.into());
        let base =
            u128::from(self.base_fee_scalar).checked_mul(16)?.checked_mul(self.l1_base_fee)?;
        let blob = u128::from(self.blob_base_fee_scalar).checked_mul(self.l1_blob_base_fee)?;
        let fee = size.checked_mul(base.checked_add(blob)?)?.checked_div(SCALE)?;
        fee.checked_mul(self.token_ratio.into())
    }

    /// Returns the operator fee in wei of so much gas. `None`: it exceeds 128 bits. Sources: specifications of Isthmus and
    /// Jovian, "Operator fee".
    pub(crate) fn operator_fee(&self, gas: u64) -> Option<u128> {
        let product = u128::from(gas).checked_mul(self.operator_fee_scalar.into())?;
        let variable = match self.rule {
            Rule::Fjord => return Some(0),
            Rule::Isthmus => product / 1_000_000,
            Rule::Jovian | Rule::Arsia => product.checked_mul(100)?,
        };
        variable.checked_add(self.operator_fee_constant.into())
    }
}

/// Returns the number that these bytes are; `None`: it is too large.
fn number<N: TryFrom<U256>>(input: &[u8], bytes: Range<usize>) -> Option<N> {
    N::try_from(U256::from_be_slice(input.get(bytes)?)).ok()
}

/// Returns a FastLZ length that no transaction of so many bytes exceeds: that of `getL1FeeUpperBound` of the
/// `GasPriceOracle` contract, or the length without any compression if that is more.
pub(crate) fn longest_fast_lz(bytes: u64) -> u64 {
    let of_contract = bytes.saturating_add(bytes / 255).saturating_add(16);
    of_contract.max(bytes.saturating_add(bytes.div_ceil(32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters with these scalars and L1 fees.
    fn attributes(rule: Rule, scalars: (u32, u32), l1_base_fee: u128, blob: u128) -> Attributes {
        Attributes {
            rule,
            base_fee_scalar: scalars.0,
            blob_base_fee_scalar: scalars.1,
            l1_block: 0,
            l1_base_fee,
            l1_blob_base_fee: blob,
            operator_fee_scalar: 1000,
            operator_fee_constant: 10,
            token_ratio: 1,
        }
    }

    #[test]
    fn l1_fees_are_those_of_the_vectors() {
        let revm = attributes(Rule::Fjord, (1000, 1000), 1000, 1000);
        assert_eq!(revm.l1_fee(3), Some(1700));
        assert_eq!(revm.l1_fee(202), Some(2148));
        // OP Mainnet, block 124,665,056.
        let mainnet = attributes(Rule::Fjord, (5227, 1_014_213), 1_055_991_687, 1);
        assert_eq!(mainnet.l1_fee(385), Some(24_681_034_813));
        let empty = attributes(Rule::Fjord, (2, 3), 1_000_000_000, 10_000_000);
        assert_eq!(empty.l1_fee(31), Some(3_203_000));
        let huge = attributes(Rule::Fjord, (u32::MAX, 1), u128::MAX, 0);
        assert_eq!(huge.l1_fee(31), None);
    }

    #[test]
    fn operator_fees_follow_their_fork() {
        let fee = |rule| attributes(rule, (0, 0), 0, 0).operator_fee(1000);
        assert_eq!(
            [Rule::Fjord, Rule::Isthmus, Rule::Jovian, Rule::Arsia].map(fee),
            [Some(0), Some(11), Some(100_000_010), Some(100_000_010)]
        );
    }

    /// Vectors of mantle-xyz/op-geth (`rollup_cost_test.go`) and of a block of Mantle Sepolia (mantle-xyz/reth).
    #[test]
    fn fees_of_mantle_are_those_of_its_vectors() {
        let arsia = |scalars, l1_base_fee, blob, token_ratio| Attributes {
            token_ratio,
            ..attributes(Rule::Arsia, scalars, l1_base_fee, blob)
        };
        let minimum = arsia((2, 3), 1_000_000_000, 10_000_000, 1_000_000);
        assert!(
            [100, 150, 170].iter().all(|size| minimum.l1_fee(*size) == Some(3_203_000_000_000))
        );
        assert!(minimum.l1_fee(171) > Some(3_203_000_000_000));
        assert_eq!(arsia((20, 15), 2_000_000, 3_000_000, 1).l1_fee(235), Some(105_484));
        let operator = Attributes {
            operator_fee_scalar: 1_439_103_868,
            operator_fee_constant: 1_256_417_826_609_331_460,
            ..minimum
        };
        assert_eq!(operator.operator_fee(1618), Some(1_256_650_673_615_173_860));
        let sepolia = arsia((169_019, 4_544_124), 1_225_135_484, 69_790_495, 4369);
        assert_eq!(sepolia.l1_fee(100), Some(1_586_067_345_511_818));
    }

    /// Builds the input of a deposit.
    fn input(selector: [u8; 4], length: usize) -> Vec<u8> {
        let mut input = vec![0; length];
        let mut put = |at: usize, bytes: &[u8]| input[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &selector);
        put(4, &5227_u32.to_be_bytes());
        put(8, &1_014_213_u32.to_be_bytes());
        put(28, &23_597_000_u64.to_be_bytes());
        put(52, &1_055_991_687_u128.to_be_bytes());
        put(84, &1_u128.to_be_bytes());
        if length > 164 {
            put(164, &7_u32.to_be_bytes());
            put(168, &8_u64.to_be_bytes());
        }
        input
    }

    #[test]
    fn deposits_of_known_forks_are_parsed_and_others_are_not() {
        for (selector, length, rule) in Attributes::RULES {
            let parsed = Attributes::parse(&input(selector, length)).unwrap();
            let expected = Attributes {
                rule,
                l1_block: 23_597_000,
                operator_fee_scalar: if rule == Rule::Fjord { 0 } else { 7 },
                operator_fee_constant: if rule == Rule::Fjord { 0 } else { 8 },
                ..attributes(rule, (5227, 1_014_213), 1_055_991_687, 1)
            };
            assert_eq!(parsed, expected);
            let mut longer = input(selector, length);
            longer.push(0);
            assert_eq!(Attributes::parse(&longer), None);
            let mut of_256_bits = input(selector, length);
            of_256_bits[36] = 1;
            assert_eq!(Attributes::parse(&of_256_bits), None);
        }
        assert_eq!(Attributes::parse(&input([1, 2, 3, 4], 178)), None);
        assert_eq!(Attributes::parse(&[]), None);
    }
}
