//! How a chain moves its base fee: from the configuration, or from the `extraData` of an OP Stack chain's headers.

use std::num::{NonZeroU32, NonZeroU64};

use super::Pricing;

/// Parameters in the header of an OP Stack block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderParameters {
    /// A full block raises the base fee by 1/denominator of it.
    pub base_fee_change_denominator: NonZeroU32,
    /// An empty block lowers the base fee by 1/denominator of it.
    pub empty_block_denominator: NonZeroU32,
    /// In wei, with the width of the header's field.
    minimum_base_fee: Option<u64>,
}

impl HeaderParameters {
    /// Returns the lowest base fee in wei; `None`: the header has none (before Jovian).
    #[must_use]
    pub fn minimum_base_fee(&self) -> Option<u128> {
        self.minimum_base_fee.map(u128::from)
    }

    /// Parses the `extraData` of a header. Holocene: version 0, denominator and elasticity as 32-bit numbers. Jovian:
    /// version 1, the same, and the minimum base fee as a 64-bit number. Returns `None` for any other content, and for
    /// numbers that are no rule.
    #[must_use]
    pub fn from_extra_data(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (denominator, rest) = rest.split_first_chunk()?;
        let (elasticity, rest) = rest.split_first_chunk()?;
        let minimum_base_fee = match version {
            0 if rest.is_empty() => None,
            1 => Some(u64::from_be_bytes(rest.try_into().ok()?)),
            _ => return None,
        };
        let empty_block_denominator = NonZeroU32::new(u32::from_be_bytes(*denominator))?;
        // Rises are (elasticity - 1)/denominator of the base fee. An elasticity of 1 or 0 is no rule.
        let growth = u32::from_be_bytes(*elasticity).checked_sub(1)?;
        let denominator = empty_block_denominator.get().checked_div(growth)?;
        Some(Self {
            base_fee_change_denominator: NonZeroU32::new(denominator).unwrap_or(NonZeroU32::MIN),
            empty_block_denominator,
            minimum_base_fee,
        })
    }

    /// Compares the configured constants with these parameters.
    #[must_use]
    pub fn contradictions(&self, pricing: &Pricing) -> Contradictions {
        let floor = Some(pricing.base_fee_floor).filter(|floor| *floor > 0);
        let denominator = |assumed: Option<NonZeroU64>, stated: NonZeroU32| {
            let assumed = assumed.map(|denominator| denominator.get().into());
            Contradiction::find(assumed, Some(stated.get().into()))
        };
        Contradictions {
            base_fee_floor: Contradiction::find(floor, self.minimum_base_fee()),
            base_fee_change_denominator: denominator(
                pricing.base_fee_change_denominator,
                self.base_fee_change_denominator,
            ),
            empty_block_denominator: denominator(
                pricing.empty_block_denominator,
                self.empty_block_denominator,
            ),
        }
    }
}

/// Configured constants that differ from what a chain's headers state; `None`: equal, or one of them is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradictions {
    /// The configured floor and the minimum base fee, in wei.
    pub base_fee_floor: Option<Contradiction>,
    /// The denominators of a full block.
    pub base_fee_change_denominator: Option<Contradiction>,
    /// The denominators of an empty block.
    pub empty_block_denominator: Option<Contradiction>,
}

/// A configured constant, and what the chain's headers state instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contradiction {
    /// Value of the configuration.
    pub assumed: u128,
    /// Value of the headers.
    pub header: u128,
}

impl Contradiction {
    fn find(assumed: Option<u128>, header: Option<u128>) -> Option<Self> {
        let (assumed, header) = assumed.zip(header)?;
        (assumed != header).then_some(Self { assumed, header })
    }
}

/// Parameters of a chain's base fee that are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainParameters {
    /// How full and empty blocks move the base fee; `None`: unknown.
    pub denominators: Option<Denominators>,
    /// Lowest base fee in wei, of the header or else of the configured floor; `None`: neither is known.
    pub minimum_base_fee: Option<u128>,
}

/// How full and empty blocks move a chain's base fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denominators {
    /// A full block raises the base fee by 1/denominator of it.
    pub full_block: NonZeroU64,
    /// An empty block lowers the base fee by 1/denominator of it.
    pub empty_block: NonZeroU64,
    /// Source of the denominator of a full block.
    pub source: DenominatorSource,
}

/// Where the denominator of a chain's base fee comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenominatorSource {
    /// The configuration or a preset.
    Configuration,
    /// The chain's headers.
    Header,
}

impl ChainParameters {
    /// Chooses the parameters from the configured ones and those of the newest known `header`; `None`: none is known, or
    /// the chain's headers have none. An explicit denominator wins, then the header's, then the preset's.
    #[must_use]
    pub fn new(pricing: &Pricing, header: Option<HeaderParameters>) -> Self {
        let floor = Some(pricing.base_fee_floor).filter(|floor| *floor > 0);
        Self {
            denominators: Denominators::new(pricing, header),
            minimum_base_fee: header.and_then(|header| header.minimum_base_fee()).or(floor),
        }
    }

    /// Returns the configured parameters, for callers that read no headers.
    #[must_use]
    pub fn without_header(pricing: &Pricing) -> Self {
        Self::new(pricing, None)
    }
}

impl Denominators {
    fn new(pricing: &Pricing, header: Option<HeaderParameters>) -> Option<Self> {
        let assumed = pricing.base_fee_change_denominator;
        let stated = header.filter(|_| !pricing.is_denominator_explicit);
        let (full_block, source) = match stated {
            Some(header) => (header.base_fee_change_denominator.into(), DenominatorSource::Header),
            None => (assumed?, DenominatorSource::Configuration),
        };
        let explicit =
            pricing.empty_block_denominator.filter(|_| pricing.is_empty_block_denominator_explicit);
        let stated = stated.map(|header| header.empty_block_denominator.into());
        let empty_block =
            explicit.or(stated).or(pricing.empty_block_denominator).unwrap_or(full_block);
        Some(Self { full_block, empty_block, source })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GWEI: u128 = 1_000_000_000;

    fn holocene(denominator: u32, elasticity: u32) -> Vec<u8> {
        [&[0][..], &denominator.to_be_bytes(), &elasticity.to_be_bytes()].concat()
    }

    fn jovian(denominator: u32, elasticity: u32, minimum: u64) -> Vec<u8> {
        let start = holocene(denominator, elasticity);
        [&[1], &start[1..], &minimum.to_be_bytes()].concat()
    }

    fn parsed(bytes: &[u8]) -> Option<(u64, Option<u128>)> {
        let header = HeaderParameters::from_extra_data(bytes)?;
        Some((header.base_fee_change_denominator.get().into(), header.minimum_base_fee()))
    }

    fn denominator(n: u64) -> Option<NonZeroU64> {
        NonZeroU64::new(n)
    }

    #[test]
    fn holocene_and_jovian_headers_have_parameters() {
        // OP Mainnet and Base before Jovian, byte by byte.
        assert_eq!(parsed(&[0, 0, 0, 0, 250, 0, 0, 0, 2]), Some((250, None)));
        assert_eq!(parsed(&[0, 0, 0, 0, 50, 0, 0, 0, 3]), Some((25, None)));
        let minimum = [1, 0, 0, 0, 250, 0, 0, 0, 6, 0, 0, 0, 4, 168, 23, 200, 0];
        assert_eq!(parsed(&minimum), Some((50, Some(20 * GWEI))));
        assert_eq!(parsed(&jovian(32, 2, 0)), Some((32, Some(0))));
        // Rounded down, and at least 1.
        assert_eq!(parsed(&holocene(50, 4)), Some((16, None)));
        assert_eq!(parsed(&holocene(1, u32::MAX)), Some((1, None)));
        assert_eq!(parsed(&holocene(u32::MAX, 2)), Some((u32::MAX.into(), None)));
        assert_eq!(parsed(&jovian(8, 2, u64::MAX)), Some((8, Some(u64::MAX.into()))));
    }

    proptest! {
        #[test]
        fn any_extra_data_is_parsed_or_ignored(
            version in 0..4_u8,
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = [&[version][..], &rest].concat();
            let has_known_length = matches!((version, bytes.len()), (0, 9) | (1, 17));
            match HeaderParameters::from_extra_data(&bytes) {
                Some(header) => {
                    prop_assert!(has_known_length);
                    prop_assert!(header.base_fee_change_denominator <= header.empty_block_denominator);
                    prop_assert_eq!(header.minimum_base_fee().is_some(), version == 1);
                }
                None if has_known_length => {
                    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
                    prop_assert!(number(1) == 0 || number(5) < 2);
                }
                None => {}
            }
        }

        #[test]
        fn the_denominator_is_the_quotient(d in 1..u32::MAX, e in 2..u32::MAX) {
            let expected = u64::from((d / (e - 1)).max(1));
            prop_assert_eq!(parsed(&holocene(d, e)), Some((expected, None)));
            prop_assert_eq!(parsed(&jovian(d, e, 7)), Some((expected, Some(7))));
        }
    }

    #[test]
    fn an_explicit_denominator_wins_then_the_header_then_the_preset() {
        use DenominatorSource::{Configuration, Header};
        const SET: bool = true;
        const PRESET: bool = false;
        let header = HeaderParameters::from_extra_data(&jovian(250, 6, 7));
        // Denominators of a full and of an empty block, 0 for none, and whether the operator set them.
        let choose = |(full, is_full_set), (empty, is_empty_set), header| {
            let pricing = Pricing {
                base_fee_change_denominator: denominator(full),
                is_denominator_explicit: is_full_set,
                empty_block_denominator: denominator(empty),
                is_empty_block_denominator_explicit: is_empty_set,
                ..Pricing::default()
            };
            let found = ChainParameters::new(&pricing, header).denominators;
            found.map(|found| (found.full_block.get(), found.empty_block.get(), found.source))
        };
        let none = (0, PRESET);
        assert_eq!(choose((32, SET), none, header), Some((32, 32, Configuration)));
        assert_eq!(choose((32, SET), (40, SET), header), Some((32, 40, Configuration)));
        assert_eq!(choose((32, PRESET), none, header), Some((50, 250, Header)));
        assert_eq!(choose((32, PRESET), (40, PRESET), header), Some((50, 250, Header)));
        assert_eq!(choose((32, PRESET), (40, SET), header), Some((50, 40, Header)));
        assert_eq!(choose((32, PRESET), none, None), Some((32, 32, Configuration)));
        assert_eq!(choose((32, PRESET), (40, PRESET), None), Some((32, 40, Configuration)));
        assert_eq!(choose((32, PRESET), (40, SET), None), Some((32, 40, Configuration)));
        assert_eq!(choose(none, none, header), Some((50, 250, Header)));
        assert_eq!(choose(none, (40, SET), header), Some((50, 40, Header)));
        assert_eq!(choose(none, none, None), None);
        // An empty block alone is no rule.
        assert_eq!(choose(none, (40, SET), None), None);
    }

    #[test]
    fn the_minimum_base_fee_is_the_headers_or_else_the_floor() {
        let minimum = |base_fee_floor, extra_data: &[u8]| {
            let header = HeaderParameters::from_extra_data(extra_data);
            let pricing = Pricing { base_fee_floor, ..Pricing::default() };
            ChainParameters::new(&pricing, header).minimum_base_fee
        };
        assert_eq!(minimum(GWEI, &jovian(250, 6, 7)), Some(7));
        assert_eq!(minimum(GWEI, &jovian(250, 6, 0)), Some(0));
        assert_eq!(minimum(GWEI, &holocene(250, 6)), Some(GWEI));
        assert_eq!(minimum(GWEI, &[]), Some(GWEI));
        assert_eq!(minimum(0, &holocene(250, 6)), None);
        // An explicit denominator says nothing about the minimum.
        let explicit = Pricing {
            base_fee_change_denominator: denominator(32),
            is_denominator_explicit: true,
            ..Pricing::default()
        };
        let header = HeaderParameters::from_extra_data(&jovian(250, 6, 7));
        assert_eq!(ChainParameters::new(&explicit, header).minimum_base_fee, Some(7));
    }

    #[test]
    fn only_known_and_different_values_contradict() {
        let pair = |it: Contradiction| (it.assumed, it.header);
        let find = |base_fee_floor, [full, empty]: [u64; 2], extra_data: &[u8]| {
            let header = HeaderParameters::from_extra_data(extra_data).unwrap();
            header.contradictions(&Pricing {
                base_fee_floor,
                base_fee_change_denominator: denominator(full),
                empty_block_denominator: denominator(empty),
                ..Pricing::default()
            })
        };
        let compare = |base_fee_floor, full, extra_data: &[u8]| {
            let found = find(base_fee_floor, [full, 0], extra_data);
            assert_eq!(found.empty_block_denominator, None);
            (found.base_fee_floor.map(pair), found.base_fee_change_denominator.map(pair))
        };
        let minimum = jovian(32, 2, 7);
        assert_eq!(compare(7, 32, &minimum), (None, None));
        assert_eq!(compare(0, 0, &minimum), (None, None));
        assert_eq!(compare(GWEI, 32, &minimum), (Some((GWEI, 7)), None));
        assert_eq!(compare(GWEI, 25, &holocene(32, 2)), (None, Some((25, 32))));
        assert_eq!(compare(GWEI, 25, &jovian(32, 2, 0)), (Some((GWEI, 0)), Some((25, 32))));
        let empty = |both, extra_data: &[u8]| find(0, both, extra_data).empty_block_denominator;
        assert_eq!(empty([50, 250], &holocene(250, 6)), None);
        assert_eq!(empty([50, 240], &holocene(250, 6)).map(pair), Some((240, 250)));
    }
}
