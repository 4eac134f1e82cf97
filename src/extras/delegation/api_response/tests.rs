use http_body_util::StreamBody;
use hyper::body::Frame;

use super::*;

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
