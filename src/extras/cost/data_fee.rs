//! Parameters of the data fees of all chains, and what the fee market says of them.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use utoipa::ToSchema;

use super::chain_keys::{CostKeys, DataFeeKind};
use super::confirmed::{Confirmed, Reading, is_near};
use super::op_stack::{Attributes, Rule};
use crate::fees::Wei;
use crate::observe::clock;
use crate::store::{ChainStore, PerChain, StoredChain};

/// Block time of Ethereum.
pub(super) const L1_BLOCK_TIME: Duration = Duration::from_secs(12);

/// L1 blocks by which a reading may differ from the one before, beside those of the time between.
const MAX_L1_LEAD: u64 = 100;

/// The newest parameters of all chains, or why there are none. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct DataFees(PerChain<ChainDataFee>);

#[derive(Debug)]
struct ChainDataFee {
    /// `None`: unknown.
    kind: watch::Sender<Option<DataFeeKind>>,
    /// `None`: those of a fork whose rule is not known.
    read: Mutex<Confirmed<Option<ReadAttributes>>>,
}

/// Attributes, and when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadAttributes {
    pub(crate) attributes: Attributes,
    pub(crate) read_at: Instant,
    /// For display.
    pub(crate) read_time: SystemTime,
}

/// The data fee of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataFee {
    /// There is none, or the gas contains it. Not exact: the tip that a transaction needs grows with its data.
    Zero {
        kind: DataFeeKind,
        is_exact: bool,
    },
    OpStack(ReadAttributes),
}

/// Reason why a data fee is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DataFeeReason, rename_all = "snake_case")]
pub(crate) enum DataFeeReason {
    /// The service does not know how the chain charges for data.
    Unknown,
    /// The parameters were never read.
    NotRead,
    /// The parameters are too old.
    Old,
}

impl ReadAttributes {
    /// Age above which the parameters are not used.
    const MAX_AGE: Duration = Duration::from_mins(10);
    /// Age up to which there is a `max_send`. The room of `max` is enough for two full blocks of Ethereum.
    pub(crate) const MAX_AGE_TO_SEND: Duration = Duration::from_mins(1);
}

impl Reading for ReadAttributes {
    /// No parameter moves by more than a factor of 3, and the L1 block not by 100 more than the time allows.
    fn follows(&self, earlier: &Self) -> bool {
        let between = self.read_at.saturating_duration_since(earlier.read_at);
        let blocks = (between.as_secs() / L1_BLOCK_TIME.as_secs()).saturating_add(MAX_L1_LEAD);
        let (new, old) = (&self.attributes, &earlier.attributes);
        let is_near = |amounts: (u128, u128)| is_near(amounts.0, amounts.1);
        new.rule == old.rule
            && new.l1_block.abs_diff(old.l1_block) <= blocks
            && new.amounts().into_iter().zip(old.amounts()).all(is_near)
    }
}

impl DataFees {
    pub(super) fn new(store: &ChainStore, keys: &CostKeys) -> Self {
        Self(PerChain::new(store, |chain| ChainDataFee {
            kind: watch::Sender::new(keys.data_fee(chain.config())),
            read: Mutex::new(Confirmed::new(None)),
        }))
    }

    /// Returns the kind of a chain's data fee; `None`: unknown.
    pub(super) fn kind(&self, chain: &StoredChain) -> Option<DataFeeKind> {
        *self.0.get(chain).kind.borrow()
    }

    /// Records the kind of a chain's data fee. Returns true if it was another one.
    pub(super) fn record_kind(&self, chain: &StoredChain, kind: DataFeeKind) -> bool {
        self.0.get(chain).kind.send_if_modified(|known| known.replace(kind) != Some(kind))
    }

    /// Waits until the L1 attributes in each block tell the chain's data fee.
    pub(super) async fn wait_for_attributes(&self, chain: &StoredChain) {
        let mut kind = self.0.get(chain).kind.subscribe();
        // The sender lives as long as the chain.
        let _ = kind.wait_for(|kind| kind.is_some_and(DataFeeKind::has_attributes)).await;
    }

    /// Records what was read at this time; `None`: attributes of another fork. Returns true if the next reading should
    /// come soon.
    pub(super) fn record(
        &self,
        chain: &StoredChain,
        read: Option<Attributes>,
        read_at: Instant,
    ) -> bool {
        let read_time = SystemTime::now().checked_sub(clock::elapsed(read_at));
        let read_time = read_time.unwrap_or(SystemTime::UNIX_EPOCH);
        let read = read.map(|attributes| ReadAttributes { attributes, read_at, read_time });
        let mut known = self.0.get(chain).read.lock();
        // A node that lags does not renew the parameters.
        if let (Some(Some(known)), Some(read)) = (known.get(), &read)
            && read.attributes.l1_block < known.attributes.l1_block
            && read.follows(known)
            && clock::elapsed(known.read_at) <= ReadAttributes::MAX_AGE_TO_SEND
        {
            return false;
        }
        known.record(read)
    }

    /// Returns the age of the parameters; `None`: there are none.
    pub(super) fn age(&self, chain: &StoredChain) -> Option<Duration> {
        let read = (*self.0.get(chain).read.lock().get()?)?;
        Some(clock::elapsed(read.read_at))
    }

    /// Returns the data fee of a chain now.
    pub(crate) fn current(&self, chain: &StoredChain) -> Result<DataFee, DataFeeReason> {
        match self.kind(chain) {
            None | Some(DataFeeKind::Off) => Err(DataFeeReason::Unknown),
            Some(kind @ (DataFeeKind::None | DataFeeKind::Included)) => {
                Ok(DataFee::Zero { kind, is_exact: true })
            }
            Some(DataFeeKind::IncludedInTip) => {
                Ok(DataFee::Zero { kind: DataFeeKind::Included, is_exact: false })
            }
            Some(DataFeeKind::OpStack | DataFeeKind::Mantle) => {
                let read = self.0.get(chain).read.lock().get().copied();
                let read = read.ok_or(DataFeeReason::NotRead)?.ok_or(DataFeeReason::Unknown)?;
                let is_old = clock::elapsed(read.read_at) > ReadAttributes::MAX_AGE;
                if is_old { Err(DataFeeReason::Old) } else { Ok(DataFee::OpStack(read)) }
            }
        }
    }
}

/// Parameters from which a client computes the data fee of a transaction. All but `kind` are `null` where there is none.
#[derive(Serialize, ToSchema)]
pub(super) struct DataFeeParameters {
    #[schema(value_type = DataFeeKindName)]
    kind: DataFeeKind,
    /// Fork whose rule applies.
    #[schema(required)]
    rule: Option<Rule>,
    #[schema(required)]
    base_fee_scalar: Option<u32>,
    #[schema(required)]
    blob_base_fee_scalar: Option<u32>,
    #[schema(required)]
    l1_base_fee: Option<Wei>,
    #[schema(required)]
    l1_blob_base_fee: Option<Wei>,
    #[schema(required)]
    operator_fee_scalar: Option<u32>,
    #[schema(required)]
    operator_fee_constant: Option<Wei>,
    /// Factor of the L1 fee: the price of ETH in the chain's coin; 1 but on Mantle.
    #[schema(required)]
    token_ratio: Option<u64>,
    /// Number of the L1 block that the parameters come from.
    #[schema(required)]
    l1_block: Option<u64>,
    /// Time at which they were read.
    #[schema(required, format = DateTime)]
    observed_at: Option<String>,
}

/// Kind of a data fee: `none`, `included` in the gas estimate or the tip, that of OP Stack chains, or that of Mantle.
#[derive(ToSchema)]
#[schema(as = DataFeeKind, rename_all = "kebab-case")]
#[expect(dead_code, reason = "it describes the names")]
pub(super) enum DataFeeKindName {
    None,
    Included,
    OpStack,
    Mantle,
}

impl DataFeeParameters {
    pub(super) fn new(fee: &DataFee) -> Self {
        let (kind, read) = match fee {
            DataFee::Zero { kind, .. } => (*kind, None),
            DataFee::OpStack(read) => (read.attributes.kind(), Some(read)),
        };
        let attributes = read.map(|read| read.attributes);
        Self {
            kind,
            rule: attributes.map(|it| it.rule),
            base_fee_scalar: attributes.map(|it| it.base_fee_scalar),
            blob_base_fee_scalar: attributes.map(|it| it.blob_base_fee_scalar),
            l1_base_fee: attributes.map(|it| Wei(it.l1_base_fee)),
            l1_blob_base_fee: attributes.map(|it| Wei(it.l1_blob_base_fee)),
            operator_fee_scalar: attributes.map(|it| it.operator_fee_scalar),
            operator_fee_constant: attributes.map(|it| Wei(it.operator_fee_constant.into())),
            token_ratio: attributes.map(|it| it.token_ratio),
            l1_block: attributes.map(|it| it.l1_block),
            observed_at: read.map(ReadAttributes::observed_at),
        }
    }
}

impl ReadAttributes {
    pub(super) fn observed_at(&self) -> String {
        humantime::format_rfc3339_millis(self.read_time).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::tests::chain_toml;

    #[test]
    fn a_lagging_node_does_not_renew_the_parameters() {
        let text = chain_toml("a", 10, "data_fee = \"op-stack\"");
        let config = Config::from_toml(&text, &[CostKeys::SECTION]).unwrap();
        let (store, _publishers) = ChainStore::new(&config.chains);
        let (fees, chain) = (DataFees::new(&store, &config.section()), &store.chains()[0]);
        assert_eq!(fees.current(chain), Err(DataFeeReason::NotRead));
        let mut input = vec![0; 164];
        input[..4].copy_from_slice(&[0x44, 0x0a, 0x5e, 0x20]);
        let mut of_block = |number: u8| {
            input[35] = number;
            Attributes::parse(&input).unwrap()
        };
        let (now, known) = (Instant::now(), of_block(9));
        assert!(fees.record(chain, Some(known), now), "it is read again");
        assert_eq!(fees.current(chain), Err(DataFeeReason::NotRead));
        assert!(!fees.record(chain, Some(known), now));
        assert!(!fees.record(chain, Some(of_block(8)), now + Duration::from_secs(12)));
        let DataFee::OpStack(read) = fees.current(chain).unwrap() else { panic!("OP Stack") };
        assert_eq!((read.attributes, read.read_at), (known, now));
        assert!(fees.record(chain, None, now) && !fees.record(chain, None, now));
        assert_eq!(fees.current(chain), Err(DataFeeReason::Unknown));
        let long_ago = now.checked_sub(Duration::from_mins(11)).unwrap();
        (0..2).for_each(|_| _ = fees.record(chain, Some(of_block(7)), long_ago));
        assert_eq!(fees.current(chain), Err(DataFeeReason::Old));
    }

    #[test]
    fn each_parameter_that_leaps_is_kept_aside() {
        let now = Instant::now();
        let attributes = Attributes {
            rule: Rule::Jovian,
            base_fee_scalar: 30,
            blob_base_fee_scalar: 30,
            l1_block: 1000,
            l1_base_fee: 30,
            l1_blob_base_fee: 30,
            operator_fee_scalar: 0,
            operator_fee_constant: 30,
            token_ratio: 30,
        };
        let at = |attributes, seconds| ReadAttributes {
            attributes,
            read_at: now + Duration::from_secs(seconds),
            read_time: SystemTime::UNIX_EPOCH,
        };
        let follows = |change: &dyn Fn(&mut Attributes), seconds| {
            let mut changed = attributes;
            change(&mut changed);
            at(changed, seconds).follows(&at(attributes, 0))
        };
        assert!(follows(&|it| (it.l1_base_fee, it.base_fee_scalar) = (90, 10), 0));
        assert!(follows(&|it| it.l1_block = 1101, 12) && follows(&|it| it.l1_block = 900, 0));
        let leaps: [&dyn Fn(&mut Attributes); 13] = [
            &|it| it.rule = Rule::Isthmus,
            &|it| it.base_fee_scalar = 91,
            &|it| it.blob_base_fee_scalar = 9,
            &|it| it.l1_base_fee = 0,
            &|it| it.l1_base_fee = u128::MAX,
            &|it| it.l1_blob_base_fee = 91,
            &|it| it.operator_fee_scalar = 1,
            &|it| it.operator_fee_constant = 0,
            &|it| it.operator_fee_constant = u64::MAX,
            &|it| it.token_ratio = 91,
            &|it| it.l1_block = 1102,
            &|it| it.l1_block = 898,
            &|it| it.l1_block = u64::MAX,
        ];
        for (index, leap) in leaps.into_iter().enumerate() {
            assert!(!follows(leap, 12), "{index}");
        }
    }
}
