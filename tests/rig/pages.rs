//! Checks of the headers that every web page of the service sends.

use reqwest::Method;

use crate::http_client;
use crate::test_server::TestServer;

/// Returns the `Content-Security-Policy` of a page that may load images from the sources `images`.
pub(crate) fn policy(images: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src {images}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'"
    )
}

/// Checks the headers of the page at `path` and of every resource that it loads. Returns their paths, sorted, each
/// with its `Content-Security-Policy`.
pub(crate) async fn check_page_and_resources(
    service: &TestServer,
    path: &str,
) -> Vec<(String, String)> {
    let mut pending = vec![path.to_owned()];
    let mut checked: Vec<(String, String)> = vec![];
    while let Some(path) = pending.pop() {
        let (text, policy) = check_resource(service, &path).await;
        for next in loaded_paths(&path, &text) {
            if !pending.contains(&next) && checked.iter().all(|(path, _)| *path != next) {
                pending.push(next);
            }
        }
        checked.push((path, policy));
    }
    checked.sort();
    checked
}

/// Checks the resource at `path`; returns its body and its `Content-Security-Policy`.
async fn check_resource(service: &TestServer, path: &str) -> (String, String) {
    let response = service.get(path).await;
    assert_eq!(response.status, 200, "{path}: {}", response.body);
    let kind = match path.rsplit_once('.') {
        None => "html",
        Some((_, "js")) => "javascript",
        Some((_, other)) => other,
    };
    assert_eq!(response.header("content-type"), format!("text/{kind}; charset=utf-8"));
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(response.header(name), value, "{path}");
    }
    let (tag, policy) = (response.header("etag"), response.header("content-security-policy"));
    let not_modified = service.send(Method::GET, path, &[("if-none-match", tag)]).await;
    assert_eq!((not_modified.status, not_modified.body.as_str()), (304, ""), "{path}");
    let names = ["etag", "content-security-policy"];
    assert_eq!(names.map(|name| not_modified.header(name)), [tag, policy]);
    let other = service.send(Method::GET, path, &[("if-none-match", "\"0\"")]).await;
    assert_eq!(other.status, 200, "{path}");
    let head = service.send(Method::HEAD, path, &[]).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
    assert_eq!(head.header("content-length"), response.body.len().to_string());
    let post = service.send(Method::POST, path, &[]).await;
    assert_eq!((post.status, post.header("allow")), (405, "GET,HEAD"), "{path}");
    let policy = policy.to_owned();
    (response.body, policy)
}

/// Returns the paths of the resources that the file at `path` loads. Matches only whole prefixes of imports and tags,
/// because comments in noble-hashes contain other paths.
fn loaded_paths(path: &str, text: &str) -> Vec<String> {
    let base = reqwest::Url::parse(&format!("http://service{path}")).unwrap();
    let mut paths = vec![];
    for (prefix, start) in [
        ("from \"", ""),
        ("from './", "./"),
        ("import(\"", ""),
        ("<link rel=\"stylesheet\" href=\"", ""),
        ("<script type=\"module\" src=\"", ""),
        ("<script src=\"", ""),
    ] {
        for rest in text.split(prefix).skip(1) {
            let (rest, _) = rest.split_once(['"', '\'']).unwrap();
            paths.push(base.join(&format!("{start}{rest}")).unwrap().path().to_owned());
        }
    }
    paths
}

/// Checks that `from` redirects permanently to `to`, with this `Location` header.
pub(crate) async fn check_redirect(service: &TestServer, from: &str, location: &str, to: &str) {
    let client = http_client::builder().redirect(reqwest::redirect::Policy::none());
    let redirect = client.build().unwrap().get(service.url(from)).send().await.unwrap();
    assert_eq!(redirect.status(), 308, "{from}");
    assert_eq!(redirect.headers()["location"], location);
    let followed = http_client::new().get(service.url(from)).send().await.unwrap();
    assert_eq!((followed.status().as_u16(), followed.url().path()), (200, to));
}
