//! Nodes behind keys in headers, certificates of their own and a forward proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::anvil::Anvil;
use crate::http_client;
use crate::logged_process::LoggedProcess;
use crate::nginx::{self, Nginx};
use crate::process::{FREE_PORTS, File, Folder, output};
use crate::programs;
use crate::raw_client::free_port;
use crate::test_server::{Response, wait_for};

const TOKEN: &str = "c4n4ry-0123456789";
/// For servers that pass WebSockets on.
const UPGRADE: &str = "map $http_upgrade $connection_upgrade { default upgrade; '' ''; }\n";

/// A forward proxy for `CONNECT`. It records the first lines of its requests.
#[derive(Debug)]
struct ForwardProxy {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ForwardProxy {
    /// Starts a proxy that connects each client with `node`, or with the host that its request names.
    async fn start(node: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(tunnel(client, node, Arc::clone(&seen)));
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads the head of one request, and connects the client with `node`, or with the host that it names.
async fn tunnel(client: TcpStream, node: Option<SocketAddr>, seen: Arc<Mutex<Vec<String>>>) {
    let mut client = BufReader::new(client);
    let (mut first, mut line) = (String::new(), String::new());
    // A command that has its answer closes connections over which it has not asked yet.
    if client.read_line(&mut first).await.unwrap() == 0 {
        return;
    }
    while client.read_line(&mut line).await.unwrap() > 2 {
        line.clear();
    }
    seen.lock().unwrap().push(first.trim().to_owned());
    let Some(host) = first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        return;
    };
    let host = node.map_or_else(|| host.to_owned(), |node| node.to_string());
    let mut node = TcpStream::connect(host).await.unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut node).await;
}

/// A folder with the certificate of a server at `name`, as `openssl req -x509` makes one: self-signed, and a CA.
struct Certificate(Folder);

impl Certificate {
    fn new(label: &str, name: &str, openssl: &[&str]) -> Self {
        let folder = Folder::new(&format!("certificate-{label}"));
        let arguments = format!("-subj /CN=node -addext subjectAltName={name}");
        programs::certify(folder.path(), "node", openssl, &arguments);
        Self(folder)
    }

    fn path(&self) -> String {
        self.0.path().join("node.crt").display().to_string()
    }

    /// nginx directives for a server with the certificate in front of `node`, which follows these `rules`.
    fn server(&self, port: u16, node: &str, rules: &str) -> String {
        let (certificate, key) =
            (self.path(), self.0.path().join("node.key").display().to_string());
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key};
               {rules}
               location / {{ proxy_pass {node}; proxy_http_version 1.1;
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; }} }}"
        )
    }
}

/// Runs `check-config --online` and returns its exit code and output.
fn check(text: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let file = File::new("reach", text);
    let arguments = ["check-config", "--online", "--config", file.path()];
    // The proxy runs in this process.
    let (code, stdout, stderr) = tokio::task::block_in_place(|| output(&arguments, variables));
    (code, stdout + &stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_headers_own_certificates_and_a_proxy_reach_a_node() {
    let anvil = Anvil::with_chain_id(4711, &["--block-time", "1"]);
    let proxy = ForwardProxy::start(None).await;
    let certificate = Certificate::new("good", "IP:127.0.0.1", &["openssl"]);
    let other_name = Certificate::new("name", "DNS:node.example", &["openssl"]);
    let expired =
        Certificate::new("expired", "IP:127.0.0.1", &["faketime", "3 days ago", "openssl"]);
    let ports = [free_port(), free_port(), free_port()];
    let [good, named, old] = ports;
    let addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let url = anvil.url();
    let servers = [(&certificate, good), (&other_name, named), (&expired, old)];
    let rule = format!(
        "if ($http_authorization != 'Bearer {TOKEN}') {{ return 401 'no $http_authorization'; }}"
    );
    let servers: String =
        servers.iter().map(|(one, port)| one.server(*port, &url, &rule)).collect();
    let configuration = nginx::configuration(&(UPGRADE.to_owned() + &servers));
    let _nginx = Nginx::start(&addresses, |_| configuration).await;
    let upstream = |ca_file: &str, proxy: &str| {
        format!("[upstream]\nca_file = {ca_file:?}\nproxy = {proxy:?}\n")
    };
    let chain = |port: u16, token: &str| {
        format!(
            "[chains.a]\nchain_id = 4711\nblock_time = \"1s\"\njson_rpc = true\n\
             rpc_urls = [{{ url = \"https://127.0.0.1:{port}\", headers = {{ Authorization = \"Bearer {token}\" }} }}]\n"
        )
    };

    // Each is needed, and no output shows the token.
    for (ca_file, port, token, code, expected) in [
        (certificate.path(), good, TOKEN, 0, "chain id 4711"),
        (String::new(), good, TOKEN, 1, "certificate"),
        (certificate.path(), good, "c4n4ry-wrong", 1, "401"),
        (expired.path(), good, TOKEN, 1, "certificate"),
        (other_name.path(), named, TOKEN, 1, "certificate"),
        (expired.path(), old, TOKEN, 1, "certificate"),
    ] {
        let (found, text) = check(&(upstream(&ca_file, "off") + &chain(port, token)), &[]);
        assert_eq!(found, Some(code), "{port} {text}");
        assert!(text.contains(expected) && !text.contains("c4n4ry"), "{expected}: {text}");
    }
    assert_eq!(proxy.requests(), [""; 0], "the proxy is off");

    // All of them at once: polls, reads and announcements. The variable has the table form too.
    let text = upstream(&certificate.path(), &proxy.url()) + &chain(good, TOKEN);
    let sockets =
        format!("{{url=\"wss://127.0.0.1:{good}\",headers={{Authorization=\"Bearer {TOKEN}\"}}}}");
    let variables = [&FREE_PORTS[..], &[("GAS_CHAINS__A__WS_URLS", &sockets)]].concat();
    let service = LoggedProcess::with_variables("reach", &text, &variables);
    let [public, admin] = service.addresses.map(|address| format!("http://{address}"));
    let client = http_client::new();
    let suggestion = format!("{public}/v1/a/gas-suggestion");
    wait_for(&client, &suggestion, |response| response.status == 200).await;
    let call = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_blockNumber\"}";
    let read = client.post(public + "/rpc/a").header("content-type", "application/json").body(call);
    let read = read.send().await.unwrap().text().await.unwrap();
    assert!(read.contains("\"result\":\"0x"), "{read}");
    let up = "gas_suggestion_new_heads_up{chain=\"a\"} 1";
    wait_for(&client, &(admin + "/metrics"), |response| response.body.contains(up)).await;
    let requests = proxy.requests();
    let expected = format!("CONNECT 127.0.0.1:{good} HTTP/1.1");
    assert!(requests.len() >= 3 && requests.iter().all(|line| *line == expected), "{requests:?}");
    let log = service.stop();
    assert!(!log.contains("c4n4ry"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_of_the_environment_is_opt_in() {
    let anvil = Anvil::with_chain_id(4711, &["--block-time", "1"]);
    let proxy = ForwardProxy::start(None).await;
    for (setting, exceptions, is_used) in
        [("off", "", false), ("environment", "127.0.0.1", false), ("environment", "", true)]
    {
        let text = format!("[upstream]\nproxy = {setting:?}\n{}", anvil.chain("a", ""));
        let variables = [("HTTP_PROXY", &*proxy.url()), ("NO_PROXY", exceptions)];
        let (code, output) = check(&text, &variables);
        // This proxy has only `CONNECT`. A plain URL goes to it as a whole, and gets no response.
        assert_eq!(code, Some(i32::from(is_used)), "{setting} {exceptions}: {output}");
        let requests = proxy.requests();
        let expected = format!("POST {}/ HTTP/1.1", anvil.url());
        assert!(requests.iter().all(|line| *line == expected), "{requests:?}");
        assert_eq!(!requests.is_empty(), is_used, "{setting} {exceptions}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_by_its_name_is_read_from_its_public_endpoint() {
    let anvil = Anvil::with_chain_id(8453, &["--block-time", "1"]);
    let certificate = Certificate::new("public", "DNS:mainnet.base.org", &["openssl"]);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let server = certificate.server(address.port(), &anvil.url(), "");
    let configuration = nginx::configuration(&(UPGRADE.to_owned() + &server));
    let _nginx = Nginx::start(&[address], |_| configuration).await;
    let proxy = ForwardProxy::start(Some(address)).await;
    let text =
        format!("[upstream]\nca_file = {:?}\nproxy = {:?}\n", certificate.path(), proxy.url());
    let arguments = ["serve", "--chain", "base"];
    let started = Instant::now();
    let service = LoggedProcess::with_arguments("public", &text, &arguments, &FREE_PORTS);
    let [public, admin] = service.addresses.map(|address| format!("http://{address}"));
    let (client, url) = (http_client::new(), format!("{public}/v1/base/gas-suggestion"));
    wait_for(&client, &url, |response| response.status == 200).await;
    let polls = |page: &Response| {
        let lines = page.body.lines();
        let polls =
            lines.filter(|line| line.starts_with("gas_suggestion_polls_total{chain=\"base\""));
        polls.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).sum::<u32>()
    };
    wait_for(&client, &format!("{admin}/metrics"), |page| polls(page) >= 3).await;
    assert!(started.elapsed() >= Duration::from_secs(4), "three polls in {:?}", started.elapsed());
    let expected = "CONNECT mainnet.base.org:443 HTTP/1.1";
    assert!(proxy.requests().iter().all(|line| line == expected), "{:?}", proxy.requests());
    let log = service.stop();
    let says =
        |line: &str| line.contains("\"INFO\"") && line.contains("public endpoints, which are slow");
    assert_eq!(log.lines().filter(|line| says(line)).count(), 1, "{log}");
}
