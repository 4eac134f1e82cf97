use super::*;

fn url_for(base: &str, segments: &[&str], query: Option<&str>) -> Result<String, Failure> {
    let headers = HeaderMap::new();
    let client = Purse::default();
    let method = Method::GET;
    let errand = Errand { method, segments, query, headers: &headers, credentials: &[], client };
    target(&base.parse().unwrap(), &errand).map(String::from)
}

#[test]
fn a_target_is_the_configured_url_with_the_segments_behind_it() {
    for base in ["http://u:p@host:81/server", "http://u:p@host:81/server/"] {
        let url = |segments| url_for(base, segments, None).unwrap();
        assert_eq!(url(&[]), "http://u:p@host:81/server/");
        assert_eq!(url(&["verify"]), "http://u:p@host:81/server/verify");
        assert_eq!(url(&["v2", "a:b", "0xAb"]), "http://u:p@host:81/server/v2/a:b/0xAb");
    }
    assert_eq!(url_for("https://host", &[], None).unwrap(), "https://host/");
    assert_eq!(url_for("https://host", &["v2", "x"], None).unwrap(), "https://host/v2/x");
}

#[test]
fn a_query_goes_on_as_it_came_or_not_at_all() {
    for query in
        ["", "a=%2C%2c&b=+&c", "addresses=0xA,0xB&chainIds=2020", "a?b=/c:@[]\\|^`{}~!$*()"]
    {
        let url = url_for("http://host/s", &["v2", "x"], Some(query)).unwrap();
        assert_eq!(url, format!("http://host/s/v2/x?{query}"));
    }
    for query in ["a='b'", "a=\u{e4}", "a=\"b\"", "a=<b>", "a#b", "a b", "a\tb"] {
        assert_eq!(
            url_for("http://host/s", &["v2", "x"], Some(query)),
            Err(Failure::Query),
            "{query}"
        );
    }
}

#[test]
fn no_segment_leads_elsewhere() {
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
        let url = url_for("http://host/server", segments, None);
        assert_eq!(url, Err(Failure::Astray), "{segments:?}");
    }
}

#[test]
fn only_allowed_headers_pass_and_none_that_is_for_the_next_hop() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "text/plain"),
        ("accept", "a"),
        ("accept", "b"),
        ("content-encoding", "gzip"),
        ("cookie", "c"),
        ("host", "h"),
        ("x-forwarded-for", "f"),
        ("connection", "close, Content-Encoding"),
        ("connection", "x"),
        ("authorization", "secret"),
    ] {
        headers.append(name, value.parse().unwrap());
    }
    let passed: Vec<_> = passing(&headers, &PASSED_ON)
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    assert_eq!(passed, ["content-type: text/plain", "accept: a", "accept: b"]);
    let credentials = passing(&headers, &[header::AUTHORIZATION]);
    assert_eq!(credentials.len(), 1);
}
