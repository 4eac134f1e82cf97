//! Requests that two readers could take for different ones, and paths that lead elsewhere: what the
//! service answers to each, and that a proxy in front of it never gets out of step.
//!
//! `docs/reliability-shapes.md` has the same table; a test holds the two against each other.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::fake_node::{Answer, FakeNode, fee_history};
use crate::raw::{Connection, PATIENCE, Response, free_port, get};
use crate::service::Service;

const DOCUMENTED: &str = include_str!("../../docs/reliability-shapes.md");

/// What the connection does after the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Closes,
    Stays,
}
use After::{Closes, Stays};

/// A name, the bytes, the status and code of the only answer, and what the connection does then.
type Shape = (&'static str, &'static [u8], u16, &'static str, After);

/// The request that must not be seen: 60 (3c) bytes.
macro_rules! inner {
    () => {
        "GET /v1/chains HTTP/1.1\r\nHost: a\r\nX-Request-Id: smuggled\r\n\r\n"
    };
}

macro_rules! post {
    ($headers:expr, $body:expr) => {
        concat!("POST /v1/chains HTTP/1.1\r\nHost: a\r\n", $headers, "\r\n", $body).as_bytes()
    };
}

/// A body that ends at once for those who go by chunks, and the request behind it.
macro_rules! chunked {
    ($headers:expr) => {
        post!($headers, concat!("0\r\n\r\n", inner!()))
    };
}

const BAD: &str = "bad_request";
const NO_METHOD: &str = "method_not_allowed";

const SMUGGLING: &[Shape] = &[
    (
        "`Content-Length`, then `Transfer-Encoding`",
        post!(
            "Content-Length: 65\r\nTransfer-Encoding: chunked\r\n",
            concat!("0\r\n\r\n", inner!())
        ),
        400,
        BAD,
        Closes,
    ),
    (
        "`Transfer-Encoding`, then `Content-Length`",
        post!(
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            concat!("3c\r\n", inner!(), "\r\n0\r\n\r\n")
        ),
        400,
        BAD,
        Closes,
    ),
    (
        "`Transfer-Encoding : chunked`",
        chunked!("Transfer-Encoding : chunked\r\n"),
        400,
        BAD,
        Closes,
    ),
    (
        "`Transfer-Encoding: xchunked`",
        chunked!("Transfer-Encoding: xchunked\r\n"),
        400,
        BAD,
        Closes,
    ),
    ("`chunked, identity`", chunked!("Transfer-Encoding: chunked, identity\r\n"), 400, BAD, Closes),
    ("`identity, chunked`", chunked!("Transfer-Encoding: identity, chunked\r\n"), 400, BAD, Closes),
    (
        "`Transfer-Encoding: chunked` twice",
        chunked!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        400,
        BAD,
        Closes,
    ),
    (
        "`Transfer-Encoding: chunked` and `identity` on two lines",
        chunked!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
        400,
        BAD,
        Closes,
    ),
    ("`\"chunked\"` in quotes", chunked!("Transfer-Encoding: \"chunked\"\r\n"), 400, BAD, Closes),
    (
        "a vertical tab before `chunked`",
        chunked!("Transfer-Encoding: \x0bchunked\r\n"),
        400,
        BAD,
        Closes,
    ),
    (
        "`chunked` on a folded line",
        chunked!("Transfer-Encoding:\r\n chunked\r\n"),
        400,
        BAD,
        Closes,
    ),
    ("an empty `Transfer-Encoding`", chunked!("Transfer-Encoding:\r\n"), 400, BAD, Closes),
    (
        "`Transfer-Encoding` in HTTP/1.0",
        concat!(
            "POST /v1/chains HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            inner!()
        )
        .as_bytes(),
        400,
        BAD,
        Closes,
    ),
    ("a tab before `chunked`", chunked!("Transfer-Encoding:\tchunked\r\n"), 405, NO_METHOD, Closes),
    ("`CHUNKED` in capitals", chunked!("Transfer-Encoding: CHUNKED\r\n"), 405, NO_METHOD, Closes),
    (
        "a request behind the last chunk",
        chunked!("Transfer-Encoding: chunked\r\n"),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a request within a chunk",
        post!("Transfer-Encoding: chunked\r\n", concat!("3c\r\n", inner!(), "\r\n0\r\n\r\n")),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a chunk size that is no number",
        post!("Transfer-Encoding: chunked\r\n", concat!("zz\r\n", inner!(), "\r\n0\r\n\r\n")),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a chunk size over 64 bits",
        post!(
            "Transfer-Encoding: chunked\r\n",
            concat!("1000000000000003c\r\n", inner!(), "\r\n0\r\n\r\n")
        ),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "a chunk extension that ends in a bare LF",
        post!(
            "Transfer-Encoding: chunked\r\n",
            concat!("2;a\nxx\r\n3c\r\n", inner!(), "\r\n0\r\n\r\n")
        ),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "no CRLF behind the last chunk",
        post!("Transfer-Encoding: chunked\r\n", concat!("0\r\n", inner!())),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "two different `Content-Length`",
        post!("Content-Length: 0\r\nContent-Length: 60\r\n", inner!()),
        400,
        BAD,
        Closes,
    ),
    (
        "two equal `Content-Length`",
        post!("Content-Length: 60\r\nContent-Length: 60\r\n", inner!()),
        405,
        NO_METHOD,
        Stays,
    ),
    ("`Content-Length: +60`", post!("Content-Length: +60\r\n", inner!()), 400, BAD, Closes),
    ("`Content-Length: -1`", post!("Content-Length: -1\r\n", inner!()), 400, BAD, Closes),
    ("`Content-Length: 0x3c`", post!("Content-Length: 0x3c\r\n", inner!()), 400, BAD, Closes),
    (
        "a `Content-Length` over 64 bits",
        post!("Content-Length: 18446744073709551676\r\n", inner!()),
        400,
        BAD,
        Closes,
    ),
    ("`Content-Length: 6 0`", post!("Content-Length: 6 0\r\n", inner!()), 400, BAD, Closes),
    ("`Content-Length: 60, 60`", post!("Content-Length: 60, 60\r\n", inner!()), 400, BAD, Closes),
    ("`Content-Length : 60`", post!("Content-Length : 60\r\n", inner!()), 400, BAD, Closes),
    ("a request within a body", post!("Content-Length: 60\r\n", inner!()), 405, NO_METHOD, Stays),
    (
        "a request within a body that a `GET` has",
        concat!("GET /v1/chains HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n", inner!())
            .as_bytes(),
        200,
        "",
        Stays,
    ),
    (
        "a body that is longer than what comes",
        post!("Content-Length: 1000\r\n", inner!()),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "`Expect: 100-continue` and no body",
        post!("Content-Length: 60\r\nExpect: 100-continue\r\n", ""),
        405,
        NO_METHOD,
        Closes,
    ),
    (
        "`Upgrade: h2c`",
        b"GET /v1/chains HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
          Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        200,
        "",
        Stays,
    ),
    (
        "a bare CR between headers",
        post!("X: a\rContent-Length: 60\r\n", inner!()),
        400,
        BAD,
        Closes,
    ),
    ("bare LF at the ends of lines", b"GET /v1/chains HTTP/1.1\nHost: a\n\n", 200, "", Stays),
    ("NUL in a value", post!("X: a\0b\r\n", ""), 400, BAD, Closes),
    ("NUL in a name", post!("X\0: a\r\n", ""), 400, BAD, Closes),
    ("a header without a colon", post!("X\r\n", ""), 400, BAD, Closes),
    ("a folded line", post!("X: a\r\n Content-Length: 60\r\n", inner!()), 400, BAD, Closes),
    (
        "a folded first header",
        b"GET /v1/chains HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n",
        400,
        BAD,
        Closes,
    ),
    (
        "no `Host`",
        concat!("GET /v1/chains HTTP/1.1\r\n\r\n", inner!()).as_bytes(),
        400,
        BAD,
        Closes,
    ),
    (
        "two different `Host`",
        concat!("GET /v1/chains HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", inner!()).as_bytes(),
        400,
        BAD,
        Closes,
    ),
    (
        "two equal `Host`",
        b"GET /v1/chains HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        400,
        BAD,
        Closes,
    ),
    ("`Host : a`", b"GET /v1/chains HTTP/1.1\r\nHost : a\r\n\r\n", 400, BAD, Closes),
    ("`Host: user@a`", b"GET /v1/chains HTTP/1.1\r\nHost: user@a\r\n\r\n", 400, BAD, Closes),
    ("`Host: a/b`", b"GET /v1/chains HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, BAD, Closes),
    (
        "an absolute form with another host",
        b"GET http://other.example/v1/chains HTTP/1.1\r\nHost: a\r\n\r\n",
        200,
        "",
        Stays,
    ),
    (
        "`CONNECT`, and a request for the other end",
        concat!("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", inner!()).as_bytes(),
        400,
        BAD,
        Closes,
    ),
    ("HTTP/0.9", b"GET /v1/chains\r\n\r\n", 400, BAD, Closes),
    ("HTTP/1.2", b"GET /v1/chains HTTP/1.2\r\nHost: a\r\n\r\n", 400, BAD, Closes),
    (
        "the preface of HTTP/2",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        400,
        BAD,
        Closes,
    ),
    (
        "a method in lower case",
        b"get /v1/chains HTTP/1.1\r\nHost: a\r\n\r\n",
        405,
        NO_METHOD,
        Stays,
    ),
    ("a method that is no token", b"G@T /v1/chains HTTP/1.1\r\nHost: a\r\n\r\n", 400, BAD, Closes),
    ("a blank in the path", b"GET /v1/chains /x HTTP/1.1\r\nHost: a\r\n\r\n", 400, BAD, Closes),
    (
        "empty lines before the request",
        b"\r\n\r\nGET /v1/chains HTTP/1.1\r\nHost: a\r\n\r\n",
        200,
        "",
        Stays,
    ),
];

const NOT_FOUND: &str = "not_found";
const NO_CHAIN: &str = "unknown_chain";

/// A path as it is on the request's first line, and the rest as above.
type Target = (&'static str, &'static [u8], u16, &'static str, After);

const TRAVERSAL: &[Target] = &[
    ("`/v1/../v1/chains`", b"/v1/../v1/chains", 404, NOT_FOUND, Stays),
    ("`/../v1/chains`", b"/../v1/chains", 404, NOT_FOUND, Stays),
    ("`/%2e%2e/v1/chains`", b"/%2e%2e/v1/chains", 404, NOT_FOUND, Stays),
    ("`/v1/..%2fchains`", b"/v1/..%2fchains", 404, NOT_FOUND, Stays),
    ("`/v1/..%5cchains`", b"/v1/..%5cchains", 404, NOT_FOUND, Stays),
    ("`/v1/%252e%252e/fee-market`", b"/v1/%252e%252e/fee-market", 404, NO_CHAIN, Stays),
    ("`/v1/%2e%2e/fee-market`", b"/v1/%2e%2e/fee-market", 404, NO_CHAIN, Stays),
    ("`//v1/chains`", b"//v1/chains", 404, NOT_FOUND, Stays),
    ("`//other.example/v1/chains`", b"//other.example/v1/chains", 404, NOT_FOUND, Stays),
    ("`/v1//chains`", b"/v1//chains", 404, NOT_FOUND, Stays),
    ("`/v1/./chains`", b"/v1/./chains", 404, NOT_FOUND, Stays),
    ("`/v1/..;/v1/chains`", b"/v1/..;/v1/chains", 404, NOT_FOUND, Stays),
    ("`/v1/a%00/gas-suggestion`", b"/v1/a%00/gas-suggestion", 404, NO_CHAIN, Stays),
    ("`/v1/chains%00`", b"/v1/chains%00", 404, NOT_FOUND, Stays),
    ("`/v1/%c0%ae%c0%ae/fee-market`", b"/v1/%c0%ae%c0%ae/fee-market", 404, NO_CHAIN, Stays),
    ("the bytes c0 ae in the path", b"/v1/\xc0\xae\xc0\xae/fee-market", 400, BAD, Closes),
    (
        "`/v1/http:%2f%2f169.254.169.254/fee-history`",
        b"/v1/http:%2f%2f169.254.169.254/fee-history",
        404,
        NO_CHAIN,
        Stays,
    ),
    (
        "`/v1/..%2f..%2fetc%2fpasswd/fee-market`",
        b"/v1/..%2f..%2fetc%2fpasswd/fee-market",
        404,
        NO_CHAIN,
        Stays,
    ),
    (
        "`http://169.254.169.254/latest/meta-data`",
        b"http://169.254.169.254/latest/meta-data",
        404,
        NOT_FOUND,
        Stays,
    ),
    ("`file:///etc/passwd`", b"file:///etc/passwd", 400, BAD, Closes),
    ("`/v1\\chains`", b"/v1\\chains", 404, NOT_FOUND, Stays),
    ("a control character in the path", b"/v1/ch\x01ains", 400, BAD, Closes),
    ("`v1/chains`, without a slash", b"v1/chains", 400, BAD, Closes),
    ("`*`", b"*", 404, NOT_FOUND, Stays),
    ("a path over 8 KiB", b"/v1/LONG", 414, "uri_too_long", Stays),
    ("a path over 16 KiB", b"/v1/LONGER", 414, "uri_too_long", Closes),
];

/// All shapes as whole requests.
fn shapes() -> impl Iterator<Item = (&'static str, Vec<u8>, u16, &'static str, After)> {
    let requests = SMUGGLING
        .iter()
        .map(|&(name, bytes, status, code, after)| (name, bytes.to_vec(), status, code, after));
    let targets = TRAVERSAL.iter().map(|&(name, path, status, code, after)| {
        let path = match path {
            b"/v1/LONG" => [b"/v1/", &b"x".repeat(9000)[..]].concat(),
            b"/v1/LONGER" => [b"/v1/", &b"x".repeat(20_000)[..]].concat(),
            path => path.to_vec(),
        };
        let bytes = [b"GET ", &path[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        (name, bytes, status, code, after)
    });
    requests.chain(targets)
}

async fn start() -> (FakeNode, Service) {
    let node = FakeNode::start(7, Answer::Result(fee_history(1000, 3, 40))).await;
    let chains = format!("[chains.a]\nchain_id = 7\nrpc_urls = [\"{}\"]\n", node.url());
    let service = Service::start(&chains).await;
    service.wait_for("/readyz", |answer| answer.status == 200).await;
    (node, service)
}

fn marker(id: &str, more: &str) -> String {
    get("/v1/a/fee-history?blocks=1", &format!("X-Request-Id: {id}\r\n{more}"))
}

#[tokio::test]
async fn every_shape_has_its_documented_answer_and_a_hidden_request_none() {
    let (_node, service) = start().await;
    let mut faults = Vec::new();
    for (name, bytes, status, code, after) in shapes() {
        let mut client = Connection::open(service.address()).await;
        client.send(&bytes).await;
        let mut answers = match after {
            Closes => client.until_closed().await,
            Stays => {
                // Whatever else would be answered comes before this.
                client.send(marker("marker", "")).await;
                let mut answers = Vec::new();
                while let Some(answer) = client.next().await.unwrap() {
                    let is_marker = answer.header("x-request-id") == "marker";
                    answers.push(answer);
                    if is_marker {
                        break;
                    }
                }
                let last = answers.pop().filter(|last| last.status == 200);
                if last.is_none_or(|last| last.header("x-request-id") != "marker") {
                    faults.push(format!("{name}: the next request is not answered"));
                }
                answers
            }
        };
        let first = (!answers.is_empty()).then(|| answers.remove(0));
        let found = first.as_ref().map(Response::outcome);
        if found != Some((status, code.to_owned())) || !answers.is_empty() {
            faults.push(format!("{name}: not {status} {code} alone: {first:#?} and {answers:#?}"));
        }
        if first.is_some_and(|first| first.closes() != (after == Closes)) {
            faults.push(format!("{name}: it does not tell what becomes of the connection"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_documentation_has_every_shape_as_it_is_tested_here() {
    let rows: Vec<_> = shapes()
        .map(|(name, _, status, code, after)| {
            let code = if code.is_empty() { String::new() } else { format!(" `{code}`") };
            let after = if after == Closes { "closes" } else { "stays open" };
            format!("| {name} | {status}{code} | {after} |")
        })
        .collect();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| Shape |");
    let documented: Vec<_> = DOCUMENTED.lines().filter(is_row).collect();
    assert_eq!(documented, rows, "\n{}", rows.join("\n"));
}

#[tokio::test]
async fn a_client_that_is_still_sending_a_body_gets_its_answer_all_the_same() {
    let (_node, service) = start().await;
    let piece = vec![b'x'; 60_000];
    for (headers, before, behind) in [
        ("Content-Length: 120000\r\n", "", ""),
        ("Transfer-Encoding: chunked\r\n", "1d4c0\r\n", "\r\n0\r\n\r\n"),
    ] {
        let mut client = Connection::open(service.address()).await;
        let since = Instant::now();
        client.send(format!("POST /v1/chains HTTP/1.1\r\nHost: a\r\n{headers}\r\n{before}")).await;
        // By now the answer is on its way, and the body is not.
        service.get("/livez").await;
        let sent = [client.try_send(&piece).await, client.try_send(&piece).await];
        client.send(behind).await;
        // The service takes the rest for a second, so that a client that sends first and reads then
        // can read.
        if since.elapsed() < Duration::from_millis(500) {
            assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        }
        let answers = client.until_closed().await;
        assert_eq!(answers.len(), 1, "{answers:#?}");
        assert_eq!(answers[0].outcome(), (405, NO_METHOD.to_owned()));
        assert!(answers[0].closes());
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_up_to_the_one_that_cannot_be_read() {
    let (_node, service) = start().await;
    let mut client = Connection::open(service.address()).await;
    let good: String = (0..20).map(|count| marker(&format!("marker-{count}"), "")).collect();
    client.send(good + "G@T / HTTP/1.1\r\n\r\n" + inner!()).await;
    let answers = client.until_closed().await;
    let ids: Vec<_> = answers.iter().map(|answer| answer.header("x-request-id")).collect();
    let expected: Vec<_> = (0..20).map(|count| format!("marker-{count}")).collect();
    assert_eq!(ids[..20], expected);
    assert_eq!(answers.len(), 21);
    assert_eq!(answers[20].outcome(), (400, BAD.to_owned()));
    assert!(answers[20].closes());
}

/// A real nginx in front of a service; it ends when this is dropped.
struct Nginx {
    process: Child,
    folder: PathBuf,
    /// It reads a whole request before it passes it on.
    buffering: SocketAddr,
    /// It passes a body on as it comes, in chunks if it came so.
    streaming: SocketAddr,
}

impl Nginx {
    async fn start(upstream: SocketAddr) -> Self {
        let folder =
            std::env::temp_dir().join(format!("gas-suggestion-nginx-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [buffering, streaming] =
            [free_port(), free_port()].map(|port| (Ipv4Addr::LOCALHOST, port).into());
        let text = configuration(upstream, buffering, streaming);
        std::fs::write(folder.join("nginx.conf"), text).unwrap();
        // Debian has it in a folder that is not in everybody's path.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let process = Command::new("nginx")
            .env("PATH", path)
            .args(["-e", "stderr", "-c", "nginx.conf", "-p"])
            .arg(&folder)
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is needed (Debian: apt-get install nginx)");
        let nginx = Self { process, folder, buffering, streaming };
        let deadline = Instant::now() + PATIENCE;
        for address in [buffering, streaming] {
            while TcpStream::connect(address).await.is_err() {
                assert!(Instant::now() < deadline, "nginx does not listen on {address}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Few connections to the service for many clients: whoever gets out of step, others notice.
fn configuration(upstream: SocketAddr, buffering: SocketAddr, streaming: SocketAddr) -> String {
    let server = |address: SocketAddr, buffers: &str| {
        format!(
            "server {{ listen {address}; location / {{ proxy_pass http://service; \
             proxy_http_version 1.1; proxy_set_header Connection \"\"; \
             proxy_request_buffering {buffers}; }} }}\n"
        )
    };
    format!(
        "daemon off; master_process off; pid nginx.pid;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n\
         access_log off; ignore_invalid_headers off;\n\
         client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 60s;\n\
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         upstream service {{ server {upstream}; keepalive 2; }}\n\
         {}{}}}\n",
        server(buffering, "on"),
        server(streaming, "off"),
    )
}

/// The ids in the heads of all answers, in their order.
fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect()
}

#[tokio::test]
async fn nginx_in_front_is_never_out_of_step_whatever_comes_through_it() {
    let (_node, service) = start().await;
    let nginx = Nginx::start(service.address()).await;
    for proxy in [nginx.buffering, nginx.streaming] {
        let mut others = Vec::new();
        for _ in 0..4 {
            others.push(Connection::open(proxy).await);
        }
        let expected = others[0].ask(marker("first", "")).await;
        assert_eq!((expected.status, expected.header("x-request-id")), (200, "first"));
        for (count, (name, bytes, ..)) in shapes().enumerate() {
            let mut client = Connection::open(proxy).await;
            client.send(&bytes).await;
            let own = format!("own-{count}");
            client.send(marker(&own, "Connection: close\r\n")).await;
            // Others ask while the shape is under way and when it is done with.
            ask_all(&mut others, name, &format!("before-{count}"), &expected).await;
            let bytes = client.bytes_until_closed().await;
            ask_all(&mut others, name, &format!("behind-{count}"), &expected).await;
            let text = String::from_utf8_lossy(&bytes);
            // nginx may take what follows on the same connection for requests of the client; then
            // their answers are those, each once and in order.
            let ids = ids(&text);
            let named: Vec<_> = ids.iter().filter(|id| **id == "smuggled" || **id == own).collect();
            let in_order = [vec![], vec!["smuggled"], vec![&own], vec!["smuggled", &own]];
            assert!(
                in_order.iter().any(|ids| named.iter().eq(&ids.iter().collect::<Vec<_>>())),
                "{name}: {text}"
            );
            assert!(ids.len() <= named.len() + 1, "{name}: {text}");
            if ids.last() == Some(&own.as_str()) {
                assert!(text.ends_with(&expected.body), "{name}: {text}");
            }
            // 501 is nginx's own word for a coding that it does not know; the others would be about
            // the service.
            let gateway = ["500", "502", "503", "504"].map(|status| format!("HTTP/1.1 {status}"));
            assert!(!gateway.iter().any(|line| text.contains(line)), "{name}: {text}");
        }
    }
}

/// Each of these clients asks, and gets what it asked for.
async fn ask_all(clients: &mut [Connection], name: &str, prefix: &str, expected: &Response) {
    for (count, client) in clients.iter_mut().enumerate() {
        let id = format!("{prefix}-{count}");
        let answer = client.ask(marker(&id, "")).await;
        let found = (answer.status, answer.header("x-request-id"), answer.body.as_str());
        assert_eq!(found, (200, id.as_str(), expected.body.as_str()), "{name}");
    }
}
