use http_body_util::StreamBody;
use hyper::body::Frame;

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

#[test]
fn a_secret_is_found_in_any_json() {
    let redactor = Redactor::new(["canary-key".to_owned()]);
    for json in [
        "[\"canary-key\"]",
        "{\"\\u0063anary-key\":1}",
        "[1e999,\"canary-key\"]",
        "\"CANARY%2Dkey\"",
    ] {
        assert!(contains_secret(&redactor, json.as_bytes()), "{json}");
    }
    for json in ["[\"canary\"]", "[1e999]", "true", "\"\\ud800\""] {
        assert!(!contains_secret(&redactor, json.as_bytes()), "{json}");
    }
}

#[tokio::test]
async fn a_body_is_collected_up_to_the_given_size() {
    let memory = MemoryBudget::new(1024 * 1024);
    let body = || {
        let chunks = ["12", "345"].map(|chunk| Ok(Frame::data(Bytes::from(chunk))));
        StreamBody::new(futures_util::stream::iter(chunks)).boxed_unsync()
    };
    assert_eq!(collect(body(), 5, &memory).await, Ok(Bytes::from("12345")));
    assert_eq!(collect(body(), 4, &memory).await, Err(ProxyError::InvalidResponse));
}
