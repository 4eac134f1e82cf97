//! The nginx configuration of docker-compose.yml in front of replicas.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

use crate::fixtures;
use crate::http_message::get;
use crate::nginx::Nginx;
use crate::process::Process;
use crate::raw_client::{RawClient, TIMEOUT, free_port};

/// A mock of Docker's DNS server, which resolves one name: `replica`.
struct MockDns {
    address: SocketAddr,
    replicas: Arc<Mutex<Vec<Ipv4Addr>>>,
    task: JoinHandle<()>,
}

impl MockDns {
    async fn start(replicas: &[Ipv4Addr]) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let replicas = Arc::new(Mutex::new(replicas.to_vec()));
        let addresses = Arc::clone(&replicas);
        let task = tokio::spawn(async move {
            let mut query = [0; 512];
            loop {
                let (length, client) = socket.recv_from(&mut query).await.unwrap();
                let response = dns_response(&query[..length], &addresses.lock().unwrap());
                socket.send_to(&response, client).await.unwrap();
            }
        });
        Self { address, replicas, task }
    }

    fn set_replicas(&self, replicas: &[Ipv4Addr]) {
        *self.replicas.lock().unwrap() = replicas.to_vec();
    }
}

impl Drop for MockDns {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Builds the response to a query for the A records of `replica`.
fn dns_response(query: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    const QUESTION: &[u8] = b"\x07replica\x00\x00\x01\x00\x01";
    assert_eq!(&query[12..], QUESTION, "unexpected DNS question");
    let count = u8::try_from(addresses.len()).unwrap();
    let mut response = [&query[..2], &[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0], QUESTION].concat();
    for address in addresses {
        // Pointer to the name in the question, type A, class IN, TTL of 1 s, 4 bytes.
        response.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        response.extend(address.octets());
    }
    response
}

/// nginx as docker-compose.yml starts it, except for addresses and folder.
struct Balancer {
    _nginx: Nginx,
    address: SocketAddr,
}

impl Balancer {
    /// Starts nginx in front of replicas that listen on `port`.
    async fn start(dns: &MockDns, port: u16) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let configure = |folder: &Path| {
            let mut text = String::from_utf8(fixtures::read("config/nginx/replicas.conf")).unwrap();
            for (found, replacement, count) in [
                ("resolver 127.0.0.11 ", format!("resolver {} ", dns.address), 1),
                ("listen 8080;", format!("listen {address};"), 1),
                (" replica:8080;", format!(" replica:{port};"), 1),
                ("/tmp/", format!("{}/", folder.display()), 6),
            ] {
                assert_eq!(text.matches(found).count(), count, "{found}");
                text = text.replace(found, &replacement);
            }
            text
        };
        Self { _nginx: Nginx::start(&[address], configure).await, address }
    }
}

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn start(address: Ipv4Addr, port: u16) -> Process {
    let listen = SocketAddr::from((address, port)).to_string();
    Process::start(&["demo", "--block-time", "2s"], &[("GAS_SERVER__LISTEN", &listen)])
}

#[tokio::test]
async fn nginx_forwards_host_and_client_address_and_drops_forged_headers() {
    let dns = MockDns::start(&[FIRST]).await;
    let replica = TcpListener::bind((FIRST, 0)).await.unwrap();
    let balancer = Balancer::start(&dns, replica.local_addr().unwrap().port()).await;
    let mut client = RawClient::connect_from(Ipv4Addr::new(127, 0, 0, 9), balancer.address).await;
    client.send(get("/v1//%2e/a?b=%20", "X-Forwarded-For: 1.2.3.4\r\n")).await;
    let (mut connection, _) = replica.accept().await.unwrap();
    let mut request_head = Vec::new();
    while !request_head.ends_with(b"\r\n\r\n") {
        let read = tokio::time::timeout(TIMEOUT, connection.read_buf(&mut request_head)).await;
        assert_ne!(read.expect("a request").unwrap(), 0, "the connection was closed");
    }
    assert_eq!(
        String::from_utf8(request_head).unwrap(),
        "GET /v1//%2e/a?b=%20 HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.9\r\n\
         Connection: close\r\n\r\n"
    );
    let response = b"HTTP/1.1 204 No Content\r\nETag: \"1\"\r\n\r\n";
    connection.write_all(response).await.unwrap();
    let response = client.read_response().await.unwrap().unwrap();
    assert_eq!((response.status(), response.header("etag")), (204, "\"1\""));
}

#[tokio::test]
async fn nginx_does_not_buffer_events() {
    let dns = MockDns::start(&[FIRST]).await;
    let port = free_port();
    let _replica = start(FIRST, port);
    let balancer = Balancer::start(&dns, port).await;
    let mut client = RawClient::connect(balancer.address).await;
    client.send(get("/v1/ethereum/gas-suggestion/stream", "")).await;
    // With buffering, nginx would hold events back until it has 4 KiB of them, about a dozen.
    client.read_bytes_until(b"\ndata: {\"chain_name\":\"ethereum\",", 2).await;
}

#[tokio::test]
async fn nginx_fails_over_and_discovers_new_replica_addresses() {
    let dns = MockDns::start(&[FIRST, SECOND]).await;
    let port = free_port();
    let replicas = [start(FIRST, port), start(SECOND, port)];
    for replica in &replicas {
        replica.wait_for_ok("/readyz").await;
    }
    let balancer = Balancer::start(&dns, port).await;
    let mut client = RawClient::connect(balancer.address).await;
    let request = get("/v1/ethereum/gas-suggestion", "");
    let [first, second] = replicas;
    assert_eq!(first.stop_with("-TERM").0, Some(0));
    for _ in 0..20 {
        let response = client.request(&request).await;
        assert_eq!(response.status(), 200, "{response:#?}");
    }
    // The last replica stops, and a new one starts on an address that nginx has not resolved yet.
    let third = Ipv4Addr::new(127, 0, 0, 4);
    let replacement = start(third, port);
    replacement.wait_for_ok("/readyz").await;
    dns.set_replicas(&[third]);
    assert_eq!(second.stop_with("-TERM").0, Some(0));
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let response = client.request(&request).await;
        if response.status() == 200 {
            return;
        }
        assert!(response.status() == 502 && Instant::now() < deadline, "{response:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
