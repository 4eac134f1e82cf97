#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod service;

use std::sync::Arc;
use std::time::Duration;

use alloy_network::{
    Network, NetworkTransactionBuilder, TransactionBuilder, TransactionBuilder4844,
};
use alloy_provider::fillers::{BlobGasFiller, FillerControlFlow, GasFiller, TxFiller};
use alloy_provider::{Provider, SendableTx};
use alloy_transport::TransportResult;

use service::{Fees, Service};

/// Fees of the service that a transaction gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tier {
    /// Fees that should get into the next block or two.
    #[default]
    Medium,
    /// Fees for users in a hurry.
    High,
}

/// Which suggestions are used, and how long a transaction waits for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Key or id of the only chain that may use these fees. A transaction on another chain is an error and is not sent.
    /// `None`: the fees are those of the transaction's chain id, or else of the node's chain.
    pub chain: Option<String>,
    /// Fees that a transaction gets, by default [`Tier::Medium`].
    pub tier: Tier,
    /// Longest wait for a suggestion, by default 2 s. It is above 0.
    pub timeout: Duration,
    /// Oldest data that is used. `None`: the service's own limit.
    pub max_age: Option<Duration>,
    /// Use a suggestion although no newer block has come for too long, or no node responds (`X-Stale`).
    pub accept_stale: bool,
    /// Use a suggestion that does not follow from the blocks before it (`X-Doubt`).
    pub accept_doubt: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chain: None,
            tier: Tier::default(),
            timeout: Duration::from_secs(2),
            max_age: None,
            accept_stale: false,
            accept_doubt: false,
        }
    }
}

/// Sets the fees of transactions from the service, and the gas limit as alloy's [`GasFiller`] does, which it replaces.
///
/// Fees that a transaction has are kept. Without a usable suggestion [`GasFiller`] estimates the fees, and there is one
/// warning of `tracing` for each chain and outage. Nonce and chain id are left to other fillers. Clones share the
/// connections and what is known of the service; they may serve several chains and providers.
///
/// A transaction on another chain than that of the options is the error
/// [`LocalUsageError`](alloy_transport::RpcError::LocalUsageError). A filler that is dropped while it waits leaves no
/// request behind.
#[derive(Debug, Clone)]
pub struct GasSuggestionFiller {
    service: Arc<Service>,
    alloy: GasFiller,
}

impl GasSuggestionFiller {
    /// Returns a filler for the service at `url`, with its base path if it has one. The URL ends before `/v1`.
    ///
    /// # Errors
    ///
    /// [`LocalUsageError`](alloy_transport::RpcError::LocalUsageError): the URL or an option cannot be right, or the
    /// certificates of the system cannot be read.
    pub fn new(url: &str, options: Options) -> TransportResult<Self> {
        Ok(Self { service: Arc::new(Service::new(url, options)?), alloy: GasFiller::default() })
    }

    /// Returns a filler for the blob fee of blob transactions, which shares this one's service.
    #[must_use]
    pub fn blob_filler(&self) -> BlobSuggestionFiller {
        BlobSuggestionFiller { service: Arc::clone(&self.service), alloy: BlobGasFiller::default() }
    }
}

impl<N: Network> TxFiller<N> for GasSuggestionFiller {
    type Fillable = <GasFiller as TxFiller<N>>::Fillable;

    fn status(&self, tx: &N::TransactionRequest) -> FillerControlFlow {
        TxFiller::<N>::status(&self.alloy, tx)
    }

    fn fill_sync(&self, _tx: &mut SendableTx<N>) {}

    async fn prepare<P: Provider<N>>(
        &self,
        provider: &P,
        tx: &N::TransactionRequest,
    ) -> TransportResult<Self::Fillable> {
        let suggestion = async {
            let is_complete =
                tx.max_fee_per_gas().is_some() && tx.max_priority_fee_per_gas().is_some();
            if is_complete || tx.gas_price().is_some() {
                return Ok(None);
            }
            self.service.fees(chain_id::<P, N>(provider, tx).await?).await
        };
        let gas_limit = async {
            match tx.gas_limit() {
                Some(gas_limit) => Ok(gas_limit),
                None => provider.estimate_gas(tx.clone()).await,
            }
        };
        let (suggestion, gas_limit) = tokio::try_join!(suggestion, gas_limit)?;
        let mut tx = tx.clone().with_gas_limit(gas_limit);
        if let Some(fees) = suggestion {
            tx = with_fees::<N>(tx, fees);
        }
        // alloy calls the node for what is still missing.
        TxFiller::<N>::prepare(&self.alloy, provider, &tx).await
    }

    async fn fill(
        &self,
        fillable: Self::Fillable,
        tx: SendableTx<N>,
    ) -> TransportResult<SendableTx<N>> {
        let own = tx.as_builder().map(|tx| (tx.max_fee_per_gas(), tx.max_priority_fee_per_gas()));
        let mut tx = TxFiller::<N>::fill(&self.alloy, fillable, tx).await?;
        if let (Some(tx), Some((own_max, own_priority))) = (tx.as_mut_builder(), own)
            && let (Some(mut max), Some(mut priority)) =
                (tx.max_fee_per_gas(), tx.max_priority_fee_per_gas())
        {
            if let Some(own) = own_priority {
                // The room for the base fee stays.
                max = max.saturating_sub(priority).saturating_add(own);
                priority = own;
            }
            if let Some(own) = own_max {
                max = own;
                priority = own_priority.unwrap_or(priority.min(own));
            }
            tx.set_max_fee_per_gas(max);
            tx.set_max_priority_fee_per_gas(priority);
        }
        Ok(tx)
    }
}

/// Sets the blob fee of blob transactions: twice the blob base fee of the next block, if the service knows it.
///
/// Otherwise alloy's [`BlobGasFiller`] sets it, which this filler replaces. Made by [`GasSuggestionFiller::blob_filler`],
/// whose options and errors it has.
#[derive(Debug, Clone)]
pub struct BlobSuggestionFiller {
    service: Arc<Service>,
    alloy: BlobGasFiller,
}

impl<N: Network> TxFiller<N> for BlobSuggestionFiller
where
    N::TransactionRequest: TransactionBuilder4844,
{
    type Fillable = u128;

    fn status(&self, tx: &N::TransactionRequest) -> FillerControlFlow {
        TxFiller::<N>::status(&self.alloy, tx)
    }

    fn fill_sync(&self, _tx: &mut SendableTx<N>) {}

    async fn prepare<P: Provider<N>>(
        &self,
        provider: &P,
        tx: &N::TransactionRequest,
    ) -> TransportResult<u128> {
        match self.service.blob_base_fee(chain_id::<P, N>(provider, tx).await?).await? {
            // alloy takes 0 for a fee that is missing.
            Some(base_fee) => Ok(base_fee.saturating_mul(2).max(1)),
            None => TxFiller::<N>::prepare(&self.alloy, provider, tx).await,
        }
    }

    async fn fill(&self, fee: u128, tx: SendableTx<N>) -> TransportResult<SendableTx<N>> {
        TxFiller::<N>::fill(&self.alloy, fee, tx).await
    }
}

/// Returns the chain id of the transaction, or else of the node.
async fn chain_id<P: Provider<N>, N: Network>(
    provider: &P,
    tx: &N::TransactionRequest,
) -> TransportResult<u64> {
    match tx.chain_id() {
        Some(id) => Ok(id),
        None => provider.get_chain_id().await,
    }
}

/// Returns the transaction with these fees in place of its own.
fn with_fees<N: Network>(tx: N::TransactionRequest, fees: Fees) -> N::TransactionRequest {
    if fees.is_legacy && tx.max_fee_per_gas().is_none() && tx.max_priority_fee_per_gas().is_none() {
        let legacy = tx.clone().with_gas_price(fees.max_fee);
        // Types 0 and 1 have a gas price. Blobs or authorizations make it another type.
        let kind: u8 = legacy.output_tx_type().into();
        if kind < 2 {
            return legacy;
        }
    }
    tx.with_max_fee_per_gas(fees.max_fee).with_max_priority_fee_per_gas(fees.priority_fee)
}
