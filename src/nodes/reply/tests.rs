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
    for body in [
        r#"{"id":7,"result":1,"error":null}"#,
        r#"{"id":"7","result":1}"#,
        r#"{"id":7.0,"result":1}"#,
        r#"{"id":"7.0","result":1}"#,
        r#" [ {"id":7,"result":1} ] "#,
    ] {
        assert_eq!(parse_reason(body), Ok("1".into()), "{body}");
    }
    for body in [
        r#"{"id":8,"result":1}"#,
        r#"{"id":"8","result":1}"#,
        r#"{"id":"0x7","result":1}"#,
        r#"{"id":7.5,"result":1}"#,
        r#"{"id":["7"],"result":1}"#,
        r#"{"id":null,"result":1}"#,
        r#"{"result":1}"#,
        r#"{"id":7}"#,
        r#"{"id":7,"result":null}"#,
        r#"{"id":7,"id":7,"result":1}"#,
        r#"[{"id":7,"result":1},{"id":7,"result":1}]"#,
        r#"[[{"id":7,"result":1}]]"#,
        r#"[{"id":8,"result":1}]"#,
        "[]",
        "[7,1,null]",
        "[[7,1,null]]",
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

#[test]
fn a_poll_knows_a_rate_limit_in_words() {
    let in_words = [
        r#"{"code":15,"message":"You reached Public endpoint rate limit"}"#,
        r#"{"code":-32000,"message":"429 Too Many Requests: {}"}"#,
        r#"{"code":-32097,"message":"Rate limit exceeded"}"#,
        r#"{"code":-32603,"message":"Too Many Requests"}"#,
        r#"{"code":"429","message":"slower"}"#,
        r#"{"code":-32000,"message":"monthly quota of the plan reached"}"#,
        r#"{"message":"exceeded 25 requests per second"}"#,
        r#""request limit reached""#,
    ];
    for error in in_words {
        let body = format!(r#"{{"id":7,"error":{error}}}"#);
        assert_eq!(parse_reason(&body), Err("rate_limited"), "{error}");
    }
    let reason = |body: &str, code, asks_to_wait| {
        let status = HttpStatus { code, asks_to_wait };
        parse_reply(body.as_bytes(), status, 7).unwrap_err().reason()
    };
    let error = r#"{"id":7,"error":{"code":-32000,"message":"busy"}}"#;
    for (body, code, asks_to_wait, expected) in [
        ("Daily limit exceeded", 403, false, "rate_limited"),
        (r#"{"message":"no credits left"}"#, 402, false, "rate_limited"),
        ("Forbidden", 403, false, "http_status"),
        ("Payment required", 402, false, "http_status"),
        ("Daily limit exceeded", 404, false, "http_status"),
        ("overloaded", 503, true, "rate_limited"),
        (error, 503, true, "rate_limited"),
        ("overloaded", 503, false, "http_status"),
        ("overloaded", 502, true, "http_status"),
        (error, 200, true, "node_error"),
    ] {
        assert_eq!(reason(body, code, asks_to_wait), expected, "{code} {body}");
    }
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
    assert_eq!(parse_reason(r#"[{"id":7,"result":[NaN]}]"#), Ok("[null]".into()));
    assert_eq!(parse_reason(r#"{"id":7,"result":[N]}"#), Err("not_json"));
}
