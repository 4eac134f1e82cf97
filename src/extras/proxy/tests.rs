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
