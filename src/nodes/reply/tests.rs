use super::*;

fn parse_reason(body: &str) -> Result<String, &'static str> {
    parse_reply(body.as_bytes(), 200, 7)
        .map(|result| result.get().to_owned())
        .map_err(|error| error.reason())
}

#[test]
fn only_a_result_with_the_calls_id_is_accepted() {
    assert_eq!(
        parse_reason(r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#),
        Ok(r#"{"a":1}"#.into())
    );
    assert_eq!(parse_reason(r#"{"id":7,"result":1,"error":null}"#), Ok("1".into()));
    for body in [
        r#"{"id":8,"result":1}"#,
        r#"{"id":"7","result":1}"#,
        r#"{"id":null,"result":1}"#,
        r#"{"result":1}"#,
        r#"{"id":7}"#,
        r#"{"id":7,"result":null}"#,
        r#"{"id":7,"id":7,"result":1}"#,
        r#"[{"id":7,"result":1}]"#,
        "[7,1,null]",
        r#"{"id":8,"error":{"code":-32000}}"#,
    ] {
        assert_eq!(parse_reason(body), Err("invalid_reply"), "{body}");
    }
}

#[test]
fn an_error_takes_precedence_over_a_result() {
    for body in [
        r#"{"id":7,"result":1,"error":{"code":-32000,"message":"x"}}"#,
        r#"{"id":null,"error":{"code":-32000}}"#,
        r#"{"error":"slow down"}"#,
        r#"{"id":7,"error":{"code":"-32000"}}"#,
    ] {
        assert_eq!(parse_reason(body), Err("node_error"), "{body}");
    }
}

#[test]
fn known_errors_are_classified() {
    let error_outcome = |error: &str| parse_reason(&format!("{{\"id\":7,\"error\":{error}}}"));
    for code in [-32005, -32007, -32016, -32029, 429] {
        let error = format!("{{\"code\":{code},\"message\":\"limit\"}}");
        assert_eq!(error_outcome(&error), Err("rate_limited"));
    }
    assert_eq!(error_outcome(r#"{"code":-32601,"message":"no such method"}"#), Err("unsupported"));
    let beyond = r#"{"code":-32000,"message":"request Beyond head block: 7"}"#;
    assert_eq!(error_outcome(beyond), Err("beyond_head"));
    assert_eq!(error_outcome(r#"{"code":-32602,"message":7}"#), Err("node_error"));
    for body in [r#"{"id":7,"error":{"code":1}}"#, r#"{"id":0,"result":1}"#, "{}", "<html>"] {
        let error = parse_reply(body.as_bytes(), 429, 7).unwrap_err();
        assert_eq!(error.reason(), "rate_limited", "{body}");
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(
        noise: Vec<u8>,
        text in "[\\[\\]{}\",:0-9idresultNaInfinity\\\\ -]{0,80}",
        status: u16,
    ) {
        let wrapped = format!("{{\"id\":7,\"result\":{text}}}");
        for body in [noise.as_slice(), text.as_bytes(), wrapped.as_bytes()] {
            // A parsed result is always JSON.
            if let Ok(result) = parse_reply(body, status, 7) {
                serde_json::from_str::<serde::de::IgnoredAny>(result.get()).unwrap();
            }
        }
    }
}

#[test]
fn a_read_accepts_null_results_and_node_errors() {
    let parse_outcome =
        |body: &str| match parse_read_reply(&Bytes::copy_from_slice(body.as_bytes()), 200, 7) {
            Ok(NodeResponse::Result(json)) => {
                format!("result {}", String::from_utf8_lossy(&json))
            }
            Ok(NodeResponse::Error(json)) => {
                format!("error {}", String::from_utf8_lossy(&json))
            }
            Err(error) => error.reason().to_owned(),
        };
    assert_eq!(parse_outcome(r#"{"id":7,"result": null}"#), "result null");
    assert_eq!(parse_outcome(r#"{"id":7,"result":[NaN, "NaN"]}"#), r#"result [null, "NaN"]"#);
    let error_outcome = |error: &str| parse_outcome(&format!("{{\"id\":7,\"error\":{error}}}"));
    for error in [
        r#"{ "code":3,"message":"execution reverted","data":"0x" }"#,
        r#"{"code":-32602,"message":""}"#,
        r#"{"code":-32000,"message":"beyond head"}"#,
        r#"{"code":-32005,"message":"query returned more than 10000 results"}"#,
        r#"{"code":-32005,"message":"limit exceeded"}"#,
        r#"{"code":-32016,"message":"eth_call request was canceled due to enabled timeout."}"#,
        r#"{"code":-32005,"message":"generate fewer results in separate requests"}"#,
        r#"{"code":-32004,"message":"not supported"}"#,
    ] {
        assert_eq!(error_outcome(error), format!("error {error}"));
    }
    for code in NodeError::RATE_LIMIT_CODES {
        let error = format!("{{\"code\":{code},\"message\":\"over Rate limit\"}}");
        assert_eq!(error_outcome(&error), "rate_limited");
    }
    assert_eq!(error_outcome(r#"{"code":-32601,"message":"no"}"#), "unsupported");
    for error in ["\"no\"", "{}", r#"{"code":"3","message":""}"#, r#"{"code":3,"message":1}"#] {
        assert_eq!(error_outcome(error), "invalid_reply", "{error}");
    }
    assert_eq!(parse_outcome(r#"{"id":7}"#), "invalid_reply");
    assert_eq!(parse_outcome(r#"{"id":8,"result":1}"#), "invalid_reply");
}

#[test]
fn the_body_takes_precedence_over_the_status() {
    let result = br#"{"id":7,"result":1}"#;
    let reason = |body: &[u8], status| parse_reply(body, status, 7).unwrap_err().reason();
    assert!(parse_reply(result, 500, 7).is_ok());
    assert_eq!(reason(b"<html>", 502), "http_status");
    assert_eq!(reason(br#"{"message":"no"}"#, 503), "http_status");
    assert_eq!(reason(b"", 429), "rate_limited");
    assert_eq!(reason(b"<html>", 200), "not_json");
    assert_eq!(reason(b"\xff\xfe", 200), "not_json");
    assert_eq!(reason(b"", 200), "not_json");
}

#[test]
fn a_bare_nan_becomes_null_and_a_quoted_one_stays() {
    assert_eq!(
        parse_reason(r#"{"id":7,"result":[NaN,-Infinity,"NaN \" Infinity\\",Infinity]}"#),
        Ok(r#"[null,null,"NaN \" Infinity\\",null]"#.into())
    );
    assert_eq!(parse_reason(r#"{"id":7,"result":[N]}"#), Err("not_json"));
}
