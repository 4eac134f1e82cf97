//! Descriptions of parameters of other services.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::{IntoParams, ToSchema};

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ChainIdParam {
    /// The chain's id; its key works too.
    chain_id: String,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ApiKeyPath {
    /// Any text; it is neither checked nor logged.
    key: String,
}

/// Parameters that Etherscan's clients send. Others are ignored.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EtherscanQuery {
    #[param(inline, example = "gastracker")]
    module: EtherscanModule,
    /// `gasoracle` of `gastracker`, the others of `proxy`.
    #[param(inline, example = "gasoracle")]
    action: EtherscanAction,
    /// The chain's id. Default: the lowest configured one.
    #[param(nullable = false)]
    chainid: Option<String>,
    /// The block of `eth_getBlockByNumber`: `latest`.
    #[param(nullable = false)]
    tag: Option<String>,
}

/// Parameters that Blocknative's clients send. Others are ignored.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BlocknativeQuery {
    /// The chain's id. Default: the lowest configured one.
    #[param(nullable = false)]
    chainid: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum EtherscanModule {
    Gastracker,
    Proxy,
}

#[derive(ToSchema)]
pub(crate) enum EtherscanAction {
    #[schema(rename = "gasoracle")]
    GasOracle,
    #[schema(rename = "eth_gasPrice")]
    GasPrice,
    #[schema(rename = "eth_getBlockByNumber")]
    Block,
}
