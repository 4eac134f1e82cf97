//! The nginx configuration of docker-compose.yml in front of replicas.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

use crate::deployment::text;
use crate::http_message::get;
use crate::mock_upstream::{MockUpstream, Step};
use crate::nginx::Nginx;
use crate::process::Process;
use crate::raw_client::{RawClient, free_port};
use crate::test_server::wait_until;

/// A mock of Docker's DNS server, which resolves one name: `replica`. It ends with the test.
struct MockDns {
    address: SocketAddr,
    replicas: Arc<Mutex<Vec<Ipv4Addr>>>,
}

impl MockDns {
    async fn start(replicas: &[Ipv4Addr]) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let replicas = Arc::new(Mutex::new(replicas.to_vec()));
        let addresses = Arc::clone(&replicas);
        tokio::spawn(async move {
            let mut query = [0; 512];
            loop {
                let (length, client) = socket.recv_from(&mut query).await.unwrap();
                let response = dns_response(&query[..length], &addresses.lock().unwrap());
                socket.send_to(&response, client).await.unwrap();
            }
        });
        Self { address, replicas }
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

/// Starts nginx as docker-compose.yml does, except for addresses and folder, in front of replicas that listen on `port`.
/// Returns its address too.
async fn start_nginx(dns: &MockDns, port: u16) -> (Nginx, SocketAddr) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let configure = |folder: &Path| {
        let mut configuration = text("config/nginx/replicas.conf");
        for (found, replacement, count) in [
            ("resolver 127.0.0.11 ", format!("resolver {} ", dns.address), 1),
            ("listen 8080;", format!("listen {address};"), 1),
            (" replica:8080;", format!(" replica:{port};"), 1),
            ("/tmp/", format!("{}/", folder.display()), 6),
        ] {
            assert_eq!(configuration.matches(found).count(), count, "{found}");
            configuration = configuration.replace(found, &replacement);
        }
        configuration
    };
    (Nginx::start(&[address], configure).await, address)
}

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn start(address: Ipv4Addr, port: u16) -> Process {
    let listen = SocketAddr::from((address, port)).to_string();
    Process::start(&["demo", "--block-time", "2s"], &[("GAS_SERVER__LISTEN", &listen)])
}

#[tokio::test]
async fn nginx_forwards_host_and_client_address_and_drops_forged_headers() {
    let dns = MockDns::start(&[Ipv4Addr::LOCALHOST]).await;
    let response = b"HTTP/1.1 204 No Content\r\nETag: \"1\"\r\n\r\n".to_vec();
    let replica = MockUpstream::start(vec![Step::ReadHeaders, Step::Write(response)]).await;
    let (_nginx, address) = start_nginx(&dns, replica.address().port()).await;
    let mut client = RawClient::connect_from(Ipv4Addr::new(127, 0, 0, 9), address).await;
    let response = client.request(get("/v1//%2e/a?b=%20", "X-Forwarded-For: 1.2.3.4\r\n")).await;
    assert_eq!((response.status(), response.header("etag")), (204, "\"1\""));
    assert_eq!(
        String::from_utf8_lossy(&replica.connections()[0].bytes),
        "GET /v1//%2e/a?b=%20 HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.9\r\n\
         Connection: close\r\n\r\n"
    );
}

#[tokio::test]
async fn nginx_passes_events_on_fails_over_and_discovers_new_replicas() {
    let dns = MockDns::start(&[FIRST, SECOND]).await;
    let port = free_port();
    let replicas = [start(FIRST, port), start(SECOND, port)];
    for replica in &replicas {
        replica.wait_for_ok("/readyz").await;
    }
    let (_nginx, address) = start_nginx(&dns, port).await;
    let mut stream = RawClient::connect(address).await;
    stream.send(get("/v1/ethereum/gas-suggestion/stream", "")).await;
    // With buffering, nginx would hold events back until it has 4 KiB of them, about a dozen.
    stream.read_bytes_until(b"\ndata: {\"chain_name\":\"ethereum\",", 2).await;
    drop(stream);
    let mut client = RawClient::connect(address).await;
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
    *dns.replicas.lock().unwrap() = vec![third];
    assert_eq!(second.stop_with("-TERM").0, Some(0));
    wait_until("the new replica", async || {
        let status = client.request(&request).await.status();
        assert!([200, 502].contains(&status), "{status}");
        status == 200
    })
    .await;
}
