use super::*;
use crate::nodes::Exhausted;

#[test]
fn the_chain_answers_unless_the_api_rejects_the_request_itself() {
    let allows_failover = |status, body: &str| {
        let response = ApiResponse {
            status: StatusCode::from_u16(status).unwrap(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            retry_after: None,
            received_at: Instant::now(),
            fresh_for: Duration::ZERO,
        };
        LookupError::ErrorResponse(response).failover_reason().is_some()
    };
    for (status, body) in [
        (500, "{}"),
        (503, ""),
        (429, "{}"),
        (400, r#"{"message":"Unsupported CHAIN"}"#),
        (404, r#"{"error":"unknown network"}"#),
        (422, r#"{"error":"chain"}"#),
    ] {
        assert!(allows_failover(status, body), "{status} {body}");
    }
    for (status, body) in
        [(400, r#"{"message":"bad address"}"#), (404, ""), (401, "chain"), (403, "network")]
    {
        assert!(!allows_failover(status, body), "{status} {body}");
    }
    let exhausted = Exhausted { wait: Duration::ZERO, is_share: true };
    for error in [
        LookupError::BudgetExhausted(exhausted),
        LookupError::KeyRefused(Duration::ZERO),
        INVALID_RESPONSE,
    ] {
        assert!(error.failover_reason().is_some(), "{error:?}");
    }
}
