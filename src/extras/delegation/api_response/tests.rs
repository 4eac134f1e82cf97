use super::*;

#[test]
fn the_chain_answers_if_the_api_limits_the_rate() {
    let response = ApiResponse {
        status: StatusCode::TOO_MANY_REQUESTS,
        body: Bytes::from("{}"),
        retry_after: None,
        received_at: Instant::now(),
        fresh_for: Duration::ZERO,
    };
    assert!(LookupError::ErrorResponse(response).failover_reason().is_some());
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
