use super::*;

fn build_url(base: &str, segments: &[&str], query: Option<&str>) -> Result<String, ProxyError> {
    let headers = HeaderMap::new();
    let client = ClientHandle::default();
    let method = Method::GET;
    let proxy_request =
        ProxyRequest { method, segments, query, headers: &headers, credentials: &[], client };
    target_url(&base.parse().unwrap(), &proxy_request).map(String::from)
}

#[test]
fn target_url_appends_segments_to_the_configured_url() {
    for base in ["http://u:p@host:81/server", "http://u:p@host:81/server/"] {
        let url = |segments| build_url(base, segments, None).unwrap();
        assert_eq!(url(&[]), "http://u:p@host:81/server/");
        assert_eq!(url(&["verify"]), "http://u:p@host:81/server/verify");
        assert_eq!(url(&["v2", "a:b", "0xAb"]), "http://u:p@host:81/server/v2/a:b/0xAb");
    }
    assert_eq!(build_url("https://host", &[], None).unwrap(), "https://host/");
    assert_eq!(build_url("https://host", &["v2", "x"], None).unwrap(), "https://host/v2/x");
}

#[test]
fn queries_are_forwarded_unchanged_or_rejected() {
    for query in
        ["", "a=%2C%2c&b=+&c", "addresses=0xA,0xB&chainIds=2020", "a?b=/c:@[]\\|^`{}~!$*()"]
    {
        let url = build_url("http://host/s", &["v2", "x"], Some(query)).unwrap();
        assert_eq!(url, format!("http://host/s/v2/x?{query}"));
    }
    for query in ["a='b'", "a=\u{e4}", "a=\"b\"", "a=<b>", "a#b", "a b", "a\tb"] {
        assert_eq!(
            build_url("http://host/s", &["v2", "x"], Some(query)),
            Err(ProxyError::InvalidQuery),
            "{query}"
        );
    }
}

#[test]
fn segments_cannot_escape_the_base_url() {
    for segments in [
        &[".."][..],
        &["v2", "..", "..", "admin"],
        &["."],
        &["%2e%2e"],
        &["..%2f"],
        &["a/b"],
        &["a?b"],
        &["a#b"],
        &["\\\\other.example"],
        &["http://other.example"],
        &["a\tb"],
    ] {
        let url = build_url("http://host/server", segments, None);
        assert_eq!(url, Err(ProxyError::EscapesBaseUrl), "{segments:?}");
    }
}
