//! Descriptions of parameters of other services.

#![expect(dead_code, reason = "only the derived descriptions are used")]

use utoipa::{IntoParams, ToSchema};

#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ApiKeyPath {
    /// Any text; it is neither checked nor logged.
    key: String,
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
