//! Parameters, headers, responses and errors of the OpenAPI document, each described once and named by the routes.

pub(super) mod headers;
pub(super) mod parameters;
pub(super) mod problems;
mod responses;
pub(super) mod schemas;

pub(super) use parameters::{
    ApiKeyHeader, CheckQuery, ContractQuery, DelegationAddress, DelegationDirection, IfNoneMatch,
    LastEventId, LookupQuery, TokenQuery,
};
pub(super) use problems::{
    BadGateway, FeesUnavailable, GatewayTimeout, InvalidParameter, NotReady, UnknownChain,
};
pub(super) use responses::{
    AmountResponse, BodyErrors, ChainsResponse, ChartResponse, CheckResponse, CommonErrors,
    DashboardPage, DelegationsResponse, DocsPage, FeeHistoryResponse, FeeMarketResponse,
    HealthResponse, LookupErrors, NotModified, OpenApiDocument, PageNotModified, RpcResponses,
    SuggestionResponse, SuggestionStreamResponse, SuggestionsResponse, TransactionResponse,
    VerificationFormPage,
};
pub(super) use schemas::{RpcRequest, TransactionRequest};

/// Groups of operations.
pub(super) mod tag {
    pub(in crate::api) const GAS: &str = "Gas";
    pub(in crate::api) const RPC: &str = "JSON-RPC";
    pub(in crate::api) const DELEGATION: &str = "Delegation";
    pub(in crate::api) const VERIFICATION: &str = "Verification";
    pub(in crate::api) const PAGES: &str = "Pages";
    pub(in crate::api) const OPERATION: &str = "Operation";
}
