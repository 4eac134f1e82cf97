//! The fillers with anvil and a stand-in for the service.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends at the first unexpected value"
)]

mod rig;

use std::iter;
use std::time::{Duration, Instant};

use alloy::consensus::Transaction as _;
use alloy::eips::BlockNumberOrTag;
use alloy::eips::eip2930::AccessList;
use alloy::eips::eip4844::BlobTransactionSidecar;
use alloy::network::{TransactionBuilder, TransactionBuilder4844};
use alloy::primitives::{Address, U256};
use alloy::providers::{Provider, ProviderBuilder};
use alloy::rpc::types::{Transaction, TransactionRequest};
use alloy::signers::local::PrivateKeySigner;
use gas_suggestion_alloy::{GasSuggestionFiller, Options, Tier};

use rig::{Anvil, GWEI, Service, Warnings, body_of, legacy, raw_tier, response, suggestion, tier};

/// The first account of anvil.
const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

/// Max fee and priority fee of the medium tier, in gwei.
const SUGGESTED: (u128, u128) = (22, 20);

fn connect(node: &Anvil, filler: &GasSuggestionFiller) -> impl Provider + use<> {
    let provider = ProviderBuilder::new()
        .disable_recommended_fillers()
        .filler(filler.blob_filler())
        .filler(filler.clone())
        .with_simple_nonce_management()
        .fetch_chain_id()
        .wallet(KEY.parse::<PrivateKeySigner>().unwrap())
        .connect_http(node.url.parse().unwrap());
    provider.client().set_poll_interval(Duration::from_millis(10));
    provider
}

fn filler(service: &Service) -> GasSuggestionFiller {
    GasSuggestionFiller::new(&service.url, Options::default()).unwrap()
}

fn transfer() -> TransactionRequest {
    TransactionRequest::default().with_to(Address::repeat_byte(0x5a)).with_value(U256::from(1))
}

/// Sends a transaction, and returns it once it is in a block.
async fn pay(provider: &impl Provider, tx: TransactionRequest) -> Transaction {
    let receipt = provider.send_transaction(tx).await.unwrap().get_receipt().await.unwrap();
    assert!(receipt.status());
    provider.get_transaction_by_hash(receipt.transaction_hash).await.unwrap().unwrap()
}

/// Max fee and priority fee in gwei.
fn fees(tx: &Transaction) -> (u128, u128) {
    (tx.inner.max_fee_per_gas() / GWEI, tx.inner.max_priority_fee_per_gas().unwrap() / GWEI)
}

/// Pays with the fees that alloy estimates itself.
async fn pay_without_suggestion(provider: &impl Provider) {
    let estimate = provider.estimate_eip1559_fees().await.unwrap();
    let tx = pay(provider, transfer()).await;
    assert_eq!(tx.inner.max_fee_per_gas(), estimate.max_fee_per_gas);
    assert_eq!(tx.inner.max_priority_fee_per_gas(), Some(estimate.max_priority_fee_per_gas));
    assert_ne!(fees(&tx), SUGGESTED);
}

#[tokio::test]
async fn transactions_are_mined_with_the_suggested_fees() {
    let (node, service) = (Anvil::start(), Service::start(&suggestion("")));
    for (tier, expected) in [(Tier::Medium, SUGGESTED), (Tier::High, (26, 24))] {
        let options = Options { tier, ..Options::default() };
        let filler = GasSuggestionFiller::new(&format!("{}/gas/", service.url), options).unwrap();
        let tx = pay(&connect(&node, &filler), transfer()).await;
        assert_eq!(fees(&tx), expected);
        assert_eq!(tx.inner.gas_limit(), 21_000);
        assert_eq!(service.take_paths(), ["/gas/v1/2020/gas-suggestion"]);
    }
}

#[tokio::test]
async fn legacy_pricing_sets_a_gas_price() {
    let (node, service) = (Anvil::start(), Service::start(&legacy()));
    let provider = connect(&node, &filler(&service));
    for (tx, kind) in [(transfer(), 0), (transfer().with_access_list(AccessList::default()), 1)] {
        let tx = pay(&provider, tx).await;
        assert_eq!((u8::from(tx.inner.tx_type()), tx.inner.gas_price()), (kind, Some(9 * GWEI)));
    }
    // A transaction with a fee of EIP-1559 keeps it.
    let tx = pay(&provider, transfer().with_max_fee_per_gas(12 * GWEI)).await;
    assert_eq!(fees(&tx), (12, 9));
}

#[tokio::test]
async fn fees_of_the_transaction_are_kept() {
    let (node, mut service) = (Anvil::start(), Service::start(&suggestion("")));
    let provider = connect(&node, &filler(&service));
    let own_tip = || transfer().with_max_priority_fee_per_gas(30 * GWEI);
    let own_max = || transfer().with_max_fee_per_gas(12 * GWEI);
    assert_eq!(fees(&pay(&provider, own_tip()).await), (32, 30));
    assert_eq!(fees(&pay(&provider, own_max()).await), (12, 12));
    assert_eq!(service.take_paths().len(), 2);
    let both = own_max().with_max_priority_fee_per_gas(GWEI);
    assert_eq!(fees(&pay(&provider, both).await), (12, 1));
    let tx = pay(&provider, transfer().with_gas_price(11 * GWEI).with_gas_limit(50_000)).await;
    assert_eq!((tx.inner.gas_price(), tx.inner.gas_limit()), (Some(11 * GWEI), 50_000));
    assert!(service.take_paths().is_empty());
    // alloy's own filler replaces both if one is missing.
    service.stop();
    assert_eq!(fees(&pay(&provider, own_tip()).await).1, 30);
    assert_eq!(fees(&pay(&provider, own_max()).await).0, 12);
}

#[tokio::test]
async fn unusable_suggestions_leave_the_fees_to_alloy() {
    let node = Anvil::start();
    let (warnings, _guard) = Warnings::collect();
    let service = Service::start(&suggestion(""));
    let aged =
        |seconds| Options { max_age: Some(Duration::from_secs(seconds)), ..Options::default() };
    let medium = |max_fee, tip| body_of("eip-1559", &raw_tier(max_fee, tip), "{}", "");
    let problem = r#"{"code":"no_data","detail":"no fees\u001b[2J\nare known"}"#;
    let nested = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &vec![b'['; 100_000]].concat();
    let no_suggestion = "the response is not a suggestion";
    for (reply, options, warning) in [
        (suggestion("Age: 9\r\nX-Stale: true\r\n"), Options::default(), "the suggestion is stale"),
        (
            suggestion("X-Doubt: head_leap\r\n"),
            Options::default(),
            "the suggestion is doubted: head_leap",
        ),
        (suggestion("Age: 9\r\n"), aged(8), "the suggestion is older than 8s: age 9"),
        (suggestion(""), aged(8), "the suggestion is older than 8s: age unknown"),
        (
            response("503 Service Unavailable", "", problem),
            Options::default(),
            "503: no_data: no fees [2J are known",
        ),
        (response("404 Not Found", "", "not found"), Options::default(), "404: not found"),
        (medium("-1", "-1"), Options::default(), no_suggestion),
        (medium("+2", "1"), Options::default(), no_suggestion),
        (medium("1.5", "1"), Options::default(), no_suggestion),
        (medium("", ""), Options::default(), no_suggestion),
        (medium(&format!("{}0", u128::MAX), "1"), Options::default(), no_suggestion),
        (medium("1", "2"), Options::default(), no_suggestion),
        (body_of("eip-1559", "1", "2", ""), Options::default(), no_suggestion),
        (body_of("other", &tier(22, 20), "{}", ""), Options::default(), no_suggestion),
        (response("200 OK", "", "[]"), Options::default(), no_suggestion),
        (nested, Options::default(), "the response is not JSON"),
    ] {
        let filler = GasSuggestionFiller::new(&service.url, options).unwrap();
        let provider = connect(&node, &filler);
        service.reply_with(&reply);
        pay_without_suggestion(&provider).await;
        pay_without_suggestion(&connect(&node, &filler)).await;
        assert_eq!(warnings.take(), [warning]);
        service.reply_with(&suggestion("Age: 1\r\n"));
        assert_eq!(fees(&pay(&provider, transfer()).await), SUGGESTED);
        // The next outage has a warning of its own.
        service.reply_with(&reply);
        pay_without_suggestion(&provider).await;
        assert_eq!(warnings.take(), [warning]);
    }
}

#[tokio::test]
async fn stale_and_doubted_suggestions_are_used_if_accepted() {
    let (warnings, _guard) = Warnings::collect();
    let headers = "Age: 8\r\nX-Stale: true\r\nX-Doubt: head_leap\r\n";
    let (node, service) = (Anvil::start(), Service::start(&suggestion(headers)));
    let max_age = Some(Duration::from_secs(8));
    let options = Options { max_age, accept_stale: true, accept_doubt: true, ..Options::default() };
    let filler = GasSuggestionFiller::new(&service.url, options).unwrap();
    assert_eq!(fees(&pay(&connect(&node, &filler), transfer()).await), SUGGESTED);
    assert!(warnings.take().is_empty());
}

#[tokio::test]
async fn a_stopped_service_leaves_the_fees_to_alloy_with_one_warning() {
    let (warnings, _guard) = Warnings::collect();
    let (node, mut service) = (Anvil::start(), Service::start(&suggestion("")));
    let provider = connect(&node, &filler(&service));
    assert_eq!(fees(&pay(&provider, transfer()).await), SUGGESTED);
    service.stop();
    pay_without_suggestion(&provider).await;
    pay_without_suggestion(&provider).await;
    let [warning] = &warnings.take()[..] else { panic!("not one warning") };
    assert!(warning.starts_with("the service is unreachable: "), "{warning}");
    assert!(warning.contains("Connection refused") && !warning.contains("http://"), "{warning}");
}

#[tokio::test]
async fn hostile_responses_cost_little() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\n";
    fn parts(head: &str, part: Vec<u8>, pause: u64) -> impl Iterator<Item = Vec<u8>> + use<> {
        let part = move || {
            std::thread::sleep(Duration::from_millis(pause));
            part.clone()
        };
        iter::once(head.as_bytes().to_vec()).chain(iter::repeat_with(part))
    }
    let node = Anvil::start();
    for (head, part, pause, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n", vec![b'0'; 100_000], 0, "bytes"),
        ("HTTP/1.1 200 OK\r\n\r\n", vec![b'0'; 100_000], 0, "bytes"),
        (HEAD, [b"X-A: ".as_slice(), &[b'a'; 1000]].concat(), 0, "unreachable"),
        (HEAD, b"X-A: a\r\n".repeat(100), 0, "unreachable"),
        (HEAD, b"X-A: a\r\n".to_vec(), 50, "timeout"),
        ("HTTP/1.1 200 OK\r\n\r\n", b" ".to_vec(), 50, "timeout"),
    ] {
        let (warnings, _guard) = Warnings::collect();
        let service = Service::start(b"");
        service.reply_by(move |_| parts(head, part.clone(), pause));
        let options = Options { timeout: Duration::from_millis(500), ..Options::default() };
        let provider = connect(&node, &GasSuggestionFiller::new(&service.url, options).unwrap());
        let start = Instant::now();
        pay_without_suggestion(&provider).await;
        assert!(start.elapsed() < Duration::from_secs(10));
        let [warning] = &warnings.take()[..] else { panic!("not one warning") };
        assert!(warning.contains(expected), "{warning}");
        // The buffers of the kernel are a part of it.
        assert!(service.sent_bytes() < 20_000_000);
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (warnings, _guard) = Warnings::collect();
    let (node, other) = (Anvil::start(), Service::start(&suggestion("")));
    let location = format!("Location: {}/v1/2020/gas-suggestion\r\n", other.url);
    let service = Service::start(&response("302 Found", &location, ""));
    pay_without_suggestion(&connect(&node, &filler(&service))).await;
    assert_eq!(warnings.take(), ["302:"]);
    assert!(other.take_paths().is_empty());
}

const CHAINS: &str = r#"[{"chain":"ethereum","chain_id":1},{"chain":"ronin","chain_id":2020}]"#;

/// Answers `/v1/chains` and with a suggestion else.
fn serve_chains(service: &Service) {
    service.reply_by(|path| {
        let chains = response("200 OK", "", CHAINS);
        iter::once(if path == "/v1/chains" { chains } else { suggestion("") })
    });
}

fn for_chain(service: &Service, chain: &str) -> GasSuggestionFiller {
    let options = Options { chain: Some(chain.to_owned()), ..Options::default() };
    GasSuggestionFiller::new(&service.url, options).unwrap()
}

#[tokio::test]
async fn fees_of_another_chain_are_refused() {
    let (warnings, _guard) = Warnings::collect();
    let (node, service) = (Anvil::start(), Service::start(b""));
    serve_chains(&service);
    for (chain, requests, tx, error) in [
        ("ethereum", 1, transfer(), "these are the fees of chain 1, not of chain 2020"),
        ("1", 0, transfer(), "these are the fees of chain 1, not of chain 2020"),
        (
            "2020",
            0,
            transfer().with_chain_id(5),
            "these are the fees of chain 2020, not of chain 5",
        ),
    ] {
        let provider = connect(&node, &for_chain(&service, chain));
        for _ in 0..2 {
            let refusal = provider.send_transaction(tx.clone()).await.unwrap_err();
            assert!(refusal.is_local_usage_error());
            assert!(refusal.to_string().ends_with(error), "{refusal}");
        }
        assert_eq!(service.take_paths().len(), requests, "{chain}");
        assert_eq!(provider.get_block_number().await.unwrap(), 0);
    }
    assert!(warnings.take().is_empty());
}

#[tokio::test]
async fn the_id_of_a_key_is_requested_once() {
    let (warnings, _guard) = Warnings::collect();
    let (node, service) = (Anvil::start(), Service::start(b""));
    serve_chains(&service);
    let provider = connect(&node, &for_chain(&service, "ronin"));
    for _ in 0..2 {
        assert_eq!(fees(&pay(&provider, transfer()).await), SUGGESTED);
    }
    let suggestion = "/v1/ronin/gas-suggestion";
    assert_eq!(service.take_paths(), ["/v1/chains", suggestion, suggestion]);
    pay_without_suggestion(&connect(&node, &for_chain(&service, "base"))).await;
    assert_eq!(warnings.take(), ["the service has no chain `base`"]);
}

#[tokio::test]
async fn blob_transactions_get_the_blob_fee_of_the_service() {
    let (node, service) = (Anvil::start(), Service::start(b""));
    let fees = filler(&service);
    let builder = ProviderBuilder::new().disable_recommended_fillers();
    let builder = builder.filler(fees.blob_filler()).filler(fees);
    let provider = builder.connect_http(node.url.parse().unwrap());
    let estimate = provider.get_fee_history(2, BlockNumberOrTag::Latest, &[]).await.unwrap();
    let estimate = *estimate.base_fee_per_blob_gas.last().unwrap();
    for (market, expected) in [
        (r#"{"latest":"3","next":"7000000000"}"#, 14 * GWEI),
        (r#"{"latest":"0","next":"0"}"#, 1),
        // The service does not know it, or does not respond with one.
        ("null", estimate),
        (r#"{"latest":"3","next":7}"#, estimate),
    ] {
        let market = format!(r#"{{"blob_base_fee_per_gas":{market}}}"#);
        service.reply_by(move |path| {
            let market = response("200 OK", "", &market);
            iter::once(if path.ends_with("/fee-market") { market } else { suggestion("") })
        });
        let mut blobs = transfer().with_gas_limit(21_000);
        blobs.set_blob_sidecar_4844(BlobTransactionSidecar::default());
        let filled = provider.fill(blobs).await.unwrap();
        let filled = filled.as_builder().unwrap();
        assert_eq!(filled.max_fee_per_blob_gas(), Some(expected));
        assert_eq!(filled.max_fee_per_gas(), Some(22 * GWEI));
    }
}

#[test]
fn options_that_cannot_be_right_are_refused_at_once() {
    for url in [
        "localhost:8080",
        "http://user:word@localhost",
        "http://localhost?key=1",
        "http://localhost:port",
    ] {
        assert!(GasSuggestionFiller::new(url, Options::default()).is_err(), "{url}");
    }
    let refused = [
        Options { chain: Some(String::new()), ..Options::default() },
        Options { chain: Some("../admin".to_owned()), ..Options::default() },
        Options { timeout: Duration::ZERO, ..Options::default() },
    ];
    for options in refused {
        assert!(
            GasSuggestionFiller::new("http://localhost", options.clone()).is_err(),
            "{options:?}"
        );
    }
}

/// The example is also the program of the README and of docs/in-your-language.md.
#[test]
fn the_program_of_the_documentation_sends_with_the_suggested_fees() {
    let (node, service) = (Anvil::start(), Service::start(&suggestion("")));
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = std::fs::read_to_string(root.join("examples/send.rs")).unwrap();
    let (_, program) = program.split_once("\n\n").unwrap();
    for page in ["README.md", "../../docs/in-your-language.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        assert!(text.contains(program), "{page} has another program than examples/send.rs");
    }
    let tests = std::env::current_exe().unwrap();
    let binary = tests.parent().unwrap().with_file_name("examples/send");
    let mut command = std::process::Command::new(binary);
    let variables = [("SERVICE", &*service.url), ("RPC_URL", &*node.url), ("PRIVATE_KEY", KEY)];
    let output = command.envs(variables).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // The base fee is 3 gwei or an eighth less, so the max fee of 22 gwei is the price.
    assert!(text.starts_with("0x") && text.contains(" cost 22"), "{text}");
    assert_eq!(service.take_paths(), ["/v1/2020/gas-suggestion"]);
}
