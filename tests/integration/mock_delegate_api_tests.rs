//! Tests of the mock API: it rejects invalid and excessive requests.

use std::time::{Duration, Instant};

use axum::http::Method;

use crate::http_client;
use crate::mock_delegate_api::{MockDelegateApi, Rates};

/// Returns and resets the numbers of violations and of rate limit rejections.
fn take_violations(api: &MockDelegateApi) -> (usize, usize) {
    let mut state = api.state();
    (std::mem::take(&mut state.violations).len(), std::mem::take(&mut state.rates.rejected))
}

#[tokio::test]
async fn mock_api_records_invalid_and_excessive_requests() {
    let api = MockDelegateApi::with_prefix("/a").await;
    let client = http_client::builder().user_agent("gas-suggestion/test").build().unwrap();
    let one = "0x0000000000000000000000000000000000000001";
    let list = format!("{one}?chainId=1");
    let send = async |method: Method, target: &str, headers: &[(&str, &str)]| {
        let url = format!("{}/registry/v2/{target}", api.url());
        let mut request = client.request(method, url).header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let key = [("x-api-key", "k")];
    let rights = format!("0x{}", "0".repeat(64));
    for target in [
        list.clone(),
        format!("check/all?from={one}&to={one}&chainId=2020&rights={rights}"),
        format!("check/erc721?from={one}&to={one}&chainId=2020&contract={one}&tokenId=7"),
    ] {
        assert_eq!(send(Method::GET, &target, &key).await, 200, "{target}");
    }
    assert_eq!(take_violations(&api), (0, 0));
    let all = format!("check/all?from={one}&to={one}");
    let wrong = [
        one.to_owned(),
        format!("{one}?chainId=0x1"),
        format!("{one}?chainId=1&chainId=1"),
        format!("{list}&direction=incoming"),
        format!("{list}&rights={rights}"),
        format!("../v2x/{list}"),
        format!("check/erc404?from={one}&to={one}&chainId=1"),
        all.clone(),
        format!("{all}&chainId=1&rights=claim"),
        format!("{all}&chainId=1&contract={one}"),
        format!("check/contract?from={one}&to={one}&chainId=1"),
        format!("check/erc20?from={one}&to={one}&chainId=1&contract=0x1"),
        format!("check/erc1155?from={one}&to={one}&chainId=1&contract={one}&tokenId=-1"),
    ];
    for target in &wrong {
        assert_eq!(send(Method::GET, target, &key).await, 418, "{target}");
    }
    let heads = [
        (Method::GET, [("cookie", "a=b")].as_slice()),
        (Method::GET, &[("authorization", "Basic eA==")]),
        (Method::GET, &[("x-forwarded-for", "192.0.2.1")]),
        (Method::GET, &[("origin", "http://a.example")]),
        (Method::GET, &[("x-api-key", "a"), ("x-api-key", "b")]),
        (Method::GET, &[("accept", "text/html")]),
        (Method::POST, &key),
    ];
    for (method, headers) in &heads {
        assert_eq!(send(method.clone(), &list, headers).await, 418, "{headers:?}");
    }
    assert_eq!(take_violations(&api), (wrong.len() + heads.len(), 0));
    for number in 0..26 {
        let expected = if number < 25 { 200 } else { 429 };
        assert_eq!(send(Method::GET, &list, &[]).await, expected, "{number}");
    }
    // Requests with a key are not limited.
    assert_eq!(send(Method::GET, &list, &key).await, 200);
    assert_eq!(take_violations(&api), (0, 1));
}

#[test]
fn mock_api_counts_requests_in_every_window() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut rates = Rates::default();
    for number in 0..25 {
        assert_eq!(rates.record(at(number * 300)), None);
    }
    // The first two requests (at 0 and 300 ms) have left the window of 10 s. The third (at 600 ms) has not.
    assert_eq!(rates.record(at(10_300)), None);
    assert_eq!(rates.record(at(10_300)), None);
    assert_eq!(rates.record(at(10_599)), Some(Duration::from_millis(1)));
    assert_eq!(rates.rejected, 1);
}
