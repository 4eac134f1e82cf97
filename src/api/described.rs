//! What the interface's document says of parameters, answers, headers and errors: each is described once, for
//! the routes to name.

mod answers;
pub(super) mod headers;
pub(super) mod parameters;
pub(super) mod problems;
pub(super) mod schemas;

pub(super) use answers::{
    Alive, AllSuggestions, Amount, Chart, Check, DashboardPage, Delegations, Document,
    DocumentPage, FormPage, ListedChains, Market, NotModified, OfEveryRoute, OfLookUps,
    OfRequestBodies, OneSuggestion, PageNotModified, RecentBlocks, RpcAnswer, SuggestionStream,
    Transaction,
};
pub(super) use parameters::{
    ApiKey, DelegationAddress, DelegationDirection, IfNoneMatch, LastEventId, LookUp, OfCheck,
    OfContract, OfToken,
};
pub(super) use problems::{
    BadGateway, GatewayTimeout, InvalidParameter, NoFees, NotReady, UnknownChain,
};
pub(super) use schemas::{RpcRequest, TransactionRequest};

/// What the routes are grouped by.
pub(super) mod tag {
    pub(in crate::api) const GAS: &str = "Gas";
    pub(in crate::api) const RPC: &str = "JSON-RPC";
    pub(in crate::api) const DELEGATION: &str = "Delegation";
    pub(in crate::api) const VERIFICATION: &str = "Verification";
    pub(in crate::api) const PAGES: &str = "Pages";
    pub(in crate::api) const OPERATION: &str = "Operation";
}
