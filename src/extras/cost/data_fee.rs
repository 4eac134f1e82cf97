//! Parameters of the data fees of all chains, and what the fee market says of them.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use super::chain_keys::{CostKeys, DataFeeKind};
use super::op_stack::{Attributes, Rule};
use crate::fees::Wei;
use crate::observe::clock;
use crate::store::{ChainStore, PerChain, StoredChain};

/// The newest parameters of all chains, or why there are none. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct DataFees(PerChain<ChainDataFee>);

#[derive(Debug)]
struct ChainDataFee {
    kind: Option<DataFeeKind>,
    read: Mutex<Result<ReadAttributes, DataFeeReason>>,
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

impl DataFees {
    pub(super) fn new(store: &ChainStore, keys: &CostKeys) -> Self {
        Self(PerChain::new(store, |chain| ChainDataFee {
            kind: keys.data_fee(chain.config()),
            read: Mutex::new(Err(DataFeeReason::NotRead)),
        }))
    }

    /// Returns the kind of a chain's data fee; `None`: unknown.
    pub(super) fn kind(&self, chain: &StoredChain) -> Option<DataFeeKind> {
        self.0.get(chain).kind
    }

    /// Sets what was read at this time. `None`: attributes of another fork.
    pub(super) fn set(&self, chain: &StoredChain, read: Option<Attributes>, read_at: Instant) {
        let read_time = SystemTime::now().checked_sub(clock::elapsed(read_at));
        let read_time = read_time.unwrap_or(SystemTime::UNIX_EPOCH);
        let mut known = self.0.get(chain).read.lock();
        // A node that lags does not renew the parameters.
        if let (Ok(known), Some(read)) = (&*known, &read)
            && read.l1_block < known.attributes.l1_block
            && clock::elapsed(known.read_at) <= ReadAttributes::MAX_AGE_TO_SEND
        {
            return;
        }
        let read = read.map(|attributes| ReadAttributes { attributes, read_at, read_time });
        *known = read.ok_or(DataFeeReason::Unknown);
    }

    /// Returns the age of the parameters; `None`: there are none.
    pub(super) fn age(&self, chain: &StoredChain) -> Option<Duration> {
        let read = self.0.get(chain).read.lock().ok()?;
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
            Some(DataFeeKind::OpStack) => {
                let read = (*self.0.get(chain).read.lock())?;
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
    /// Number of the L1 block that the parameters come from.
    #[schema(required)]
    l1_block: Option<u64>,
    /// Time at which they were read.
    #[schema(required, format = DateTime)]
    observed_at: Option<String>,
}

/// Kind of a data fee: `none`, `included` in the gas estimate or the tip, or that of OP Stack chains.
#[derive(ToSchema)]
#[schema(as = DataFeeKind, rename_all = "kebab-case")]
#[expect(dead_code, reason = "it describes the names")]
pub(super) enum DataFeeKindName {
    None,
    Included,
    OpStack,
}

impl DataFeeParameters {
    pub(super) fn new(fee: &DataFee) -> Self {
        let (kind, read) = match fee {
            DataFee::Zero { kind, .. } => (*kind, None),
            DataFee::OpStack(read) => (DataFeeKind::OpStack, Some(read)),
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

    #[test]
    fn a_lagging_node_does_not_renew_the_parameters() {
        let text = "[chains.a]\nchain_id = 10\nrpc_urls = [\"http://127.0.0.1:9\"]\n";
        let config = Config::from_toml(text, &[CostKeys::SECTION]).unwrap();
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
        fees.set(chain, Some(known), now);
        fees.set(chain, Some(of_block(8)), now + Duration::from_secs(12));
        let DataFee::OpStack(read) = fees.current(chain).unwrap() else { panic!("OP Stack") };
        assert_eq!((read.attributes, read.read_at), (known, now));
        fees.set(chain, None, now);
        assert_eq!(fees.current(chain), Err(DataFeeReason::Unknown));
        let long_ago = now.checked_sub(Duration::from_mins(11)).unwrap();
        fees.set(chain, Some(of_block(7)), long_ago);
        assert_eq!(fees.current(chain), Err(DataFeeReason::Old));
    }
}
