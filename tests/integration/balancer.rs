//! The nginx of docker-compose.yml, with its own configuration, in front of replicas.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;

use crate::command::Process;
use crate::fixtures;
use crate::raw::{Connection, PATIENCE, free_port, get};

/// Docker's name server: it knows one name, `replica`, and whose it is.
struct Names {
    address: SocketAddr,
    replicas: Arc<Mutex<Vec<Ipv4Addr>>>,
    task: JoinHandle<()>,
}

impl Names {
    async fn start(replicas: &[Ipv4Addr]) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let replicas = Arc::new(Mutex::new(replicas.to_vec()));
        let known = Arc::clone(&replicas);
        let task = tokio::spawn(async move {
            let mut query = [0; 512];
            loop {
                let (length, client) = socket.recv_from(&mut query).await.unwrap();
                let answer = answer(&query[..length], &known.lock().unwrap());
                socket.send_to(&answer, client).await.unwrap();
            }
        });
        Self { address, replicas, task }
    }

    fn are_now(&self, replicas: &[Ipv4Addr]) {
        *self.replicas.lock().unwrap() = replicas.to_vec();
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The answer to a question for the IPv4 addresses of `replica`.
fn answer(query: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    const QUESTION: &[u8] = b"\x07replica\x00\x00\x01\x00\x01";
    assert_eq!(&query[12..], QUESTION, "another question");
    let count = u8::try_from(addresses.len()).unwrap();
    let mut answer = [&query[..2], &[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0], QUESTION].concat();
    for address in addresses {
        // The name of the question, A, IN, for a second, four bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}

/// nginx as docker-compose.yml starts it, but for its addresses and its folder; it ends when this is dropped.
struct Nginx {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
}

impl Nginx {
    /// In front of replicas that listen on `port`.
    async fn start(names: &Names, port: u16) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let folder =
            std::env::temp_dir().join(format!("gas-suggestion-balancer-{}", address.port()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = String::from_utf8(fixtures::read("config/nginx/replicas.conf")).unwrap();
        for (found, replacement, count) in [
            ("resolver 127.0.0.11 ", format!("resolver {} ", names.address), 1),
            ("listen 8080;", format!("listen {address};"), 1),
            (" replica:8080;", format!(" replica:{port};"), 1),
            ("/tmp/", format!("{}/", folder.display()), 6),
        ] {
            assert_eq!(text.matches(found).count(), count, "{found}");
            text = text.replace(found, &replacement);
        }
        let file = folder.join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        // Debian has it in a folder that is not in everybody's path.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let mut command = Command::new("nginx");
        command.env("PATH", path).args(["-e", "stderr", "-p"]).arg(&folder).arg("-c").arg(file);
        let checked = Command::new(command.get_program())
            .args(command.get_args())
            .arg("-t")
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .output()
            .expect("nginx is needed (Debian: apt-get install nginx)");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let process = command
            .args(["-g", "daemon off; master_process off;"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self { process, folder, address };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).await.is_err() {
            assert!(Instant::now() < deadline, "nginx does not listen on {address}");
            tokio::time::sleep(Duration::from_millis(10)).await;
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

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn start(address: Ipv4Addr, port: u16) -> Process {
    let listen = SocketAddr::from((address, port)).to_string();
    Process::start(&["demo", "--block-time", "2s"], &[("GAS_SERVER__LISTEN", &listen)])
}

#[tokio::test]
async fn nginx_tells_a_replica_the_host_and_the_client_and_nothing_that_the_client_made_up() {
    let names = Names::start(&[FIRST]).await;
    let replica = TcpListener::bind((FIRST, 0)).await.unwrap();
    let nginx = Nginx::start(&names, replica.local_addr().unwrap().port()).await;
    let mut client = Connection::open_from(Ipv4Addr::new(127, 0, 0, 9), nginx.address).await;
    client.send(get("/v1//%2e/a?b=%20", "X-Forwarded-For: 1.2.3.4\r\n")).await;
    let (mut connection, _) = replica.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let read = tokio::time::timeout(PATIENCE, connection.read_buf(&mut head)).await;
        assert_ne!(read.expect("a request").unwrap(), 0, "it closed");
    }
    assert_eq!(
        String::from_utf8(head).unwrap(),
        "GET /v1//%2e/a?b=%20 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 127.0.0.9\r\n\
         Connection: close\r\n\r\n"
    );
    let answer = b"HTTP/1.1 204 No Content\r\nETag: \"1\"\r\n\r\n";
    connection.write_all(answer).await.unwrap();
    let answer = client.next().await.unwrap().unwrap();
    assert_eq!((answer.status, answer.header("etag")), (204, "\"1\""));
}

#[tokio::test]
async fn nginx_holds_no_event_back() {
    let names = Names::start(&[FIRST]).await;
    let port = free_port();
    let _replica = start(FIRST, port);
    let nginx = Nginx::start(&names, port).await;
    let mut client = Connection::open(nginx.address).await;
    client.send(get("/v1/ethereum/gas-suggestion/stream", "")).await;
    // Where nginx gathers events, it does so to 4 KiB: a dozen of them, which takes longer than anything is
    // waited for here.
    client.bytes_until(b"\ndata: {\"chain_name\":\"ethereum\",", 2).await;
}

#[tokio::test]
async fn nginx_asks_the_other_replica_when_one_is_gone_and_finds_one_with_another_address() {
    let names = Names::start(&[FIRST, SECOND]).await;
    let port = free_port();
    let replicas = [start(FIRST, port), start(SECOND, port)];
    for replica in &replicas {
        replica.wait_for("/readyz", |answer| answer.status == 200).await;
    }
    let nginx = Nginx::start(&names, port).await;
    let mut client = Connection::open(nginx.address).await;
    let request = get("/v1/ethereum/gas-suggestion", "");
    let [first, second] = replicas;
    assert_eq!(first.end_by("-TERM").0, Some(0));
    for _ in 0..20 {
        let answer = client.ask(&request).await;
        assert_eq!(answer.status, 200, "{answer:#?}");
    }
    // The only one that is left goes, and one comes under an address that nginx has not heard of.
    let third = Ipv4Addr::new(127, 0, 0, 4);
    let replacement = start(third, port);
    replacement.wait_for("/readyz", |answer| answer.status == 200).await;
    names.are_now(&[third]);
    assert_eq!(second.end_by("-TERM").0, Some(0));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.ask(&request).await;
        if answer.status == 200 {
            return;
        }
        assert!(answer.status == 502 && Instant::now() < deadline, "{answer:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
