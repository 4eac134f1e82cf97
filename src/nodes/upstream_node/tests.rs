use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::Config;
use crate::nodes::ChainUpstreams;

/// Answers each request with chain id 7 and a fee history, over a connection of its own. Counts chain ids.
async fn serve(listener: TcpListener, chain_ids: &Mutex<usize>) {
    loop {
        let mut socket = listener.accept().await.unwrap().0;
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0);
        }
        let request = String::from_utf8(request).unwrap();
        let body = request.split("\r\n\r\n").nth(1).unwrap();
        let call: serde_json::Value = serde_json::from_str(body).unwrap();
        let result = if call["method"] == "eth_chainId" {
            *chain_ids.lock() += 1;
            json!("0x7")
        } else {
            json!({ "oldestBlock": "0x1", "baseFeePerGas": ["0x1", "0x1"],
                "gasUsedRatio": [0.5], "reward": [["0x1"]] })
        };
        let reply = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }).to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", reply.len());
        let response = format!("{head}connection: close\r\n\r\n{reply}");
        socket.write_all(response.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_doubted_chain_is_verified_a_minute_after_the_last_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!(
        "[chains.a]\nchain_id = 7\nrpc_urls = [\"http://{}\"]\nmax_block_age = \"0s\"\n\
         block_time = \"2s\"",
        listener.local_addr().unwrap()
    );
    let config = Config::from_toml(&text, &[]).unwrap();
    let client = JsonRpcClient::new(&config).unwrap();
    let upstreams = ChainUpstreams::for_chains(&client, &config.chains);
    let node = &upstreams[0].polled()[0];
    let request = FeeHistoryRequest::new(&config.chains[0].pricing);
    let chain_ids = Mutex::new(0);
    let checks = async {
        let checks = async |seconds_ago| {
            node.update(|state| {
                let now = Instant::now();
                state.chain_verified_at = now.checked_sub(Duration::from_secs(seconds_ago));
            });
            node.fee_history(&request, Duration::from_mins(1)).await.unwrap();
            *chain_ids.lock()
        };
        assert_eq!((checks(61).await, checks(601).await), (0, 1));
        node.doubt_chain();
        assert_eq!(checks(50).await, 1, "a minute is not over");
        assert_eq!(checks(61).await, 2);
        // The check has removed the doubt.
        assert_eq!(checks(61).await, 2);
    };
    tokio::select! {
        () = checks => {}
        () = serve(listener, &chain_ids) => {}
    }
}

#[test]
fn a_node_is_asked_again_after_its_failures_are_forgotten() {
    let text = "[chains.a]\nchain_id = 7\nrpc_urls = [\"http://127.0.0.1:9\"]";
    let config = Config::from_toml(text, &[]).unwrap();
    let upstreams =
        ChainUpstreams::for_chains(&JsonRpcClient::new(&config).unwrap(), &config.chains);
    let node = &upstreams[0].polled()[0];
    node.record_failure(&Error::WrongChain { expected: 7, found: 8 });
    assert_eq!(node.availability(clock::now()), Availability::Excluded);
    upstreams[0].forget_failures();
    assert_eq!(node.availability(clock::now()), Availability::Healthy);
    node.record_failure(&Error::RateLimited(Some(Duration::from_secs(5))));
    upstreams[0].forget_failures();
    assert_eq!(node.availability(clock::now()), Availability::Excluded);
}
