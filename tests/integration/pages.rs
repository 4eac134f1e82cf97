//! What every web page of the service has to be like on the wire.

use reqwest::Method;

use crate::service::Service;

/// The policy of a page that may show pictures of these sources.
pub(crate) fn policy(images: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src {images}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'"
    )
}

/// Holds the page at `path`, and all that it loads, to the headers of pages; gives their paths in order,
/// each with its policy.
pub(crate) async fn all_parts(service: &Service, path: &str) -> Vec<(String, String)> {
    let mut left = vec![path.to_owned()];
    let mut seen: Vec<(String, String)> = vec![];
    while let Some(path) = left.pop() {
        let (text, policy) = part(service, &path).await;
        for next in loads(&path, &text) {
            if !left.contains(&next) && seen.iter().all(|(path, _)| *path != next) {
                left.push(next);
            }
        }
        seen.push((path, policy));
    }
    seen.sort();
    seen
}

/// The text of the part of a page at `path` and its policy.
async fn part(service: &Service, path: &str) -> (String, String) {
    let answer = service.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    let kind = match path.rsplit_once('.') {
        None => "html",
        Some((_, "js")) => "javascript",
        Some((_, other)) => other,
    };
    assert_eq!(answer.header("content-type"), format!("text/{kind}; charset=utf-8"));
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(answer.header(name), value, "{path}");
    }
    let (tag, policy) = (answer.header("etag"), answer.header("content-security-policy"));
    let same = service.send(Method::GET, path, &[("if-none-match", tag)]).await;
    assert_eq!((same.status, same.body.as_str()), (304, ""), "{path}");
    assert_eq!([same.header("etag"), same.header("content-security-policy")], [tag, policy]);
    let other = service.send(Method::GET, path, &[("if-none-match", "\"0\"")]).await;
    assert_eq!(other.status, 200, "{path}");
    let head = service.send(Method::HEAD, path, &[]).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
    assert_eq!(head.header("content-length"), answer.body.len().to_string());
    let post = service.send(Method::POST, path, &[]).await;
    assert_eq!((post.status, post.header("allow")), (405, "GET,HEAD"), "{path}");
    let policy = policy.to_owned();
    (answer.body, policy)
}

/// The paths of what the file at `path` loads. Others are named in comments of noble-hashes.
fn loads(path: &str, text: &str) -> Vec<String> {
    let base = reqwest::Url::parse(&format!("http://service{path}")).unwrap();
    ["from \"", "from './", "<link rel=\"stylesheet\" href=\"", "<script type=\"module\" src=\""]
        .iter()
        .flat_map(|mark| {
            let beginning = if mark.ends_with('/') { "./" } else { "" };
            text.split(mark).skip(1).map(move |rest| (beginning, rest))
        })
        .map(|(beginning, rest)| {
            let (rest, _) = rest.split_once(['"', '\'']).unwrap();
            base.join(&format!("{beginning}{rest}")).unwrap().path().to_owned()
        })
        .collect()
}

/// Follows the answer at `from` to where it leads, which is said with this location.
pub(crate) async fn leads(service: &Service, from: &str, location: &str, to: &str) {
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let asked = client.build().unwrap().get(service.url(from)).send().await.unwrap();
    assert_eq!(asked.status(), 308, "{from}");
    assert_eq!(asked.headers()["location"], location);
    let led = reqwest::Client::new().get(service.url(from)).send().await.unwrap();
    assert_eq!((led.status().as_u16(), led.url().path()), (200, to));
}
