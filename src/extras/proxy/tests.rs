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
