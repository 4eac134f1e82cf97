//! What each method says of its parameters.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::anchor::Anchor::{self, Block, Fixed, Head, Pending};
use super::kept::{Hold, Kept, answers};
use super::method::{Method, Methods};
use super::*;
use crate::config::Config;

const ADDRESS: &str = "\"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"";
const HASH: &str = "\"0xe670ec64341771606e55d6b4ca35a1a6b75ee3d5145a99d05921026d1527331a\"";

/// What the answer depends on, or what is wrong. `@` stands for an address, `#` for a hash.
fn anchor(method: &str, params: &str) -> Result<Anchor, String> {
    let params = params.replace('@', ADDRESS).replace('#', HASH);
    let params: &RawValue = serde_json::from_str(&params).unwrap();
    let methods = Methods::of(None);
    let Some(Method::Known(known)) = methods.get(method) else { panic!("{method} is known") };
    known.anchor(params).map_err(|invalid| invalid.to_string())
}

#[test]
fn what_an_answer_depends_on_is_told_by_the_block_that_is_named() {
    for (tag, expected) in [
        (r#""pending""#, Pending),
        (r#""latest""#, Head),
        (r#""safe""#, Head),
        (r#""finalized""#, Head),
        (r#""earliest""#, Fixed),
        (r#""0x1b4""#, Block(436)),
        (r#""0x001b4""#, Block(436)),
        (r#""0xffffffffffffffff""#, Block(u64::MAX)),
        (r#""pendin\u0067""#, Pending),
    ] {
        for (method, params) in [
            ("eth_getBalance", "[@,T]"),
            ("eth_getCode", "[@,T]"),
            ("eth_getTransactionCount", "[@,T]"),
            ("eth_getStorageAt", "[@,\"0x0\",T]"),
            ("eth_call", "[{},T]"),
            ("eth_call", "[{\"to\":@,\"from\":null,\"data\":\"0x\"},T,{},null]"),
            ("eth_estimateGas", "[{\"from\":@},T]"),
            ("eth_simulateV1", "[{\"blockStateCalls\":[]},T]"),
            ("eth_getBlockByNumber", "[T,false]"),
            ("eth_feeHistory", "[\"0x14\",T,[60]]"),
            ("eth_feeHistory", "[20,T]"),
            ("eth_getLogs", "[{\"fromBlock\":T,\"toBlock\":T}]"),
            ("eth_getLogs", "[{\"fromBlock\":\"earliest\",\"toBlock\":T}]"),
            ("eth_getLogs", "[{\"fromBlock\":T,\"toBlock\":\"0x0\"}]"),
        ] {
            let named = params.replace('T', tag);
            let is_range = params.contains("0x0\"}]") && expected == Fixed;
            let expected = if is_range { Block(0) } else { expected };
            assert_eq!(anchor(method, &named), Ok(expected), "{method} {named}");
        }
    }
}

#[test]
fn a_state_can_be_named_by_hash_and_by_object() {
    for (tag, expected) in [
        ("#", Fixed),
        (r#"{"blockHash":#}"#, Fixed),
        (r#"{"blockHash":#,"requireCanonical":false}"#, Fixed),
        (r#"{"blockHash":#,"requireCanonical":true}"#, Head),
        (r#"{"blockNumber":"0x7"}"#, Block(7)),
        (r#"{"blockNumber":"pending"}"#, Pending),
    ] {
        assert_eq!(anchor("eth_getBalance", &format!("[@,{tag}]")), Ok(expected), "{tag}");
        assert_eq!(anchor("eth_call", &format!("[{{}},{tag}]")), Ok(expected), "{tag}");
    }
    assert_eq!(anchor("eth_getLogs", "[{\"blockHash\":#,\"address\":[@,@]}]"), Ok(Fixed));
}

#[test]
fn where_no_block_is_named_the_answer_holds_for_the_shortest_time() {
    for (method, params) in [
        ("eth_call", "[{}]"),
        ("eth_call", "[{},null,{}]"),
        ("eth_estimateGas", "[{}]"),
        ("eth_simulateV1", "[{}]"),
        ("eth_getLogs", "[{}]"),
        (
            "eth_getLogs",
            "[{\"fromBlock\":\"0x1\",\"toBlock\":null,\"topics\":[null,#,[#,null],[]]}]",
        ),
        ("eth_getTransactionReceipt", "[#]"),
        ("eth_getTransactionByHash", "[#]"),
    ] {
        assert_eq!(anchor(method, params), Ok(Pending), "{method} {params}");
    }
}

const TAG: &str = "a block: latest, pending, safe, finalized, earliest, a hex number, or where it fits \
                   a hash";

fn an_address(index: usize) -> String {
    format!("params[{index}] must be an address: 0x and 40 hex digits")
}

fn a_hash(index: usize) -> String {
    format!("params[{index}] must be a hash: 0x and 64 hex digits")
}

fn a_tag(name: &str) -> String {
    format!("params{name} must be {TAG}")
}

fn needed(count: &str, found: usize) -> String {
    let members = if count == "1" { "member" } else { "members" };
    format!("params must have {count} {members}, not {found}")
}

#[test]
fn what_cannot_be_right_is_refused_with_what_would_be() {
    for (method, params, expected) in [
        ("eth_getBalance", "[]", needed("2", 0)),
        ("eth_getBalance", "[@]", needed("2", 1)),
        ("eth_getBalance", "[@,\"latest\",1]", needed("2", 3)),
        ("eth_getBalance", "{}", "params must be an array".into()),
        (
            "eth_getBalance",
            "[\"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe\",\"latest\"]",
            an_address(0),
        ),
        (
            "eth_getBalance",
            "[\"5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\",\"latest\"]",
            an_address(0),
        ),
        (
            "eth_getBalance",
            "[\"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg\",\"latest\"]",
            an_address(0),
        ),
        ("eth_getBalance", "[null,\"latest\"]", an_address(0)),
        ("eth_getBalance", "[@,null]", a_tag("[1]")),
        ("eth_getBalance", "[@,\"Pending\"]", a_tag("[1]")),
        ("eth_getBalance", "[@,\"\"]", a_tag("[1]")),
        ("eth_getBalance", "[@,\"0x\"]", a_tag("[1]")),
        ("eth_getBalance", "[@,\"12\"]", a_tag("[1]")),
        ("eth_getBalance", "[@,12]", a_tag("[1]")),
        ("eth_getBalance", "[@,\"0x10000000000000000\"]", a_tag("[1]")),
        ("eth_getBalance", "[@,\"0x+1\"]", a_tag("[1]")),
        ("eth_getBalance", "[@,{}]", a_tag("[1]")),
        ("eth_getBalance", "[@,{\"blockHash\":#,\"blockNumber\":\"0x1\"}]", a_tag("[1]")),
        ("eth_getBalance", "[@,{\"blockHash\":\"0x12\"}]", a_tag("[1]")),
        (
            "eth_getBalance",
            "[@,{\"blockNumber\":\"0x1\",\"blockNumber\":\"pending\"}]",
            a_tag("[1]"),
        ),
        ("eth_getStorageAt", "[@,\"0x0\"]", needed("3", 2)),
        (
            "eth_getStorageAt",
            "[@,0,\"latest\"]",
            "params[1] must be a storage slot: 0x and up to 64 hex digits".into(),
        ),
        ("eth_getTransactionReceipt", "[#,\"pending\"]", needed("1", 2)),
        ("eth_getTransactionReceipt", "[@]", a_hash(0)),
        ("eth_getTransactionByHash", "[]", needed("1", 0)),
        ("eth_call", "[]", needed("1 to 4", 0)),
        ("eth_call", "[@,\"latest\"]", "params[0] must be a transaction object".into()),
        (
            "eth_call",
            "[{\"to\":#},\"latest\"]",
            "params[0].to must be an address: 0x and 40 hex digits".into(),
        ),
        ("eth_call", "[{},\"late\"]", a_tag("[1]")),
        ("eth_call", "[{},\"latest\",[]]", "params[2] must be an object".into()),
        (
            "eth_estimateGas",
            "[{\"from\":\"0x\"}]",
            "params[0].from must be an address: 0x and 40 hex digits".into(),
        ),
        ("eth_simulateV1", "[[]]", "params[0] must be an object".into()),
    ] {
        assert_eq!(anchor(method, params), Err(expected), "{method} {params}");
    }
}

#[test]
fn logs_and_blocks_that_cannot_be_right_are_refused_with_what_would_be() {
    for (method, params, expected) in [
        ("eth_getLogs", "[]", needed("1", 0)),
        ("eth_getLogs", "[[]]", "params[0] must be a filter object".into()),
        ("eth_getLogs", "[{\"fromBlock\":#}]", a_tag("[0].fromBlock")),
        ("eth_getLogs", "[{\"toBlock\":5}]", a_tag("[0].toBlock")),
        (
            "eth_getLogs",
            "[{\"blockHash\":#,\"toBlock\":\"latest\"}]",
            "params[0].blockHash must be without fromBlock and toBlock".into(),
        ),
        (
            "eth_getLogs",
            "[{\"address\":[@,#]}]",
            "params[0].address must be an address, 0x and 40 hex digits, or an array of them"
                .into(),
        ),
        (
            "eth_getLogs",
            "[{\"topics\":[#,#,#,#,#]}]",
            "params[0].topics must be up to 4 of null, a hash and an array of hashes".into(),
        ),
        (
            "eth_getLogs",
            "[{\"topics\":[[@]]}]",
            "params[0].topics must be up to 4 of null, a hash and an array of hashes".into(),
        ),
        ("eth_getBlockByNumber", "[\"latest\"]", needed("2", 1)),
        ("eth_getBlockByNumber", "[\"latest\",1]", "params[1] must be true or false".into()),
        ("eth_getBlockByNumber", "[#,true]", a_tag("[0]")),
        ("eth_feeHistory", "[-1,\"latest\",[]]", "params[0] must be a number of blocks".into()),
        ("eth_feeHistory", "[1,\"latest\",60]", "params[2] must be an array".into()),
        ("eth_chainId", "[1]", needed("0", 1)),
    ] {
        assert_eq!(anchor(method, params), Err(expected), "{method} {params}");
    }
    let deep = format!("[{}{},\"latest\"]", "[".repeat(64), "]".repeat(64));
    assert_eq!(anchor("eth_getBalance", &deep), Err("params are nested too deeply".into()));
}

#[test]
fn a_method_is_known_by_its_exact_name_and_a_chain_can_name_its_own() {
    let usual = Methods::of(None);
    for name in ["eth_call", "eth_getLogs", "net_version"] {
        assert!(matches!(usual.get(name), Some(Method::Known(known)) if known.name == name));
    }
    for name in ["ETH_CALL", "eth_Call", "eth_call ", "", "eth_sendRawTransaction", "eth_subscribe"]
    {
        assert!(usual.get(name).is_none(), "{name}");
    }
    let names = ["eth_call", "debug_traceCall"].map(|name| name.parse().unwrap());
    let own = Methods::of(Some(&names));
    assert!(matches!(own.get("eth_call"), Some(Method::Known(_))));
    assert!(matches!(own.get("debug_traceCall"), Some(Method::Other(_))));
    assert!(own.get("eth_getBalance").is_none());
    assert!(Methods::of(Some(&[])).get("eth_call").is_none());
}

#[test]
fn an_answer_can_tell_of_a_block() {
    let told = |method: &str, answer: &'static str| {
        let methods = Methods::of(None);
        let Some(Method::Known(known)) = methods.get(method) else { panic!("{method} is known") };
        known.block_told_by(&Answer::Result(Bytes::from_static(answer.as_bytes())))
    };
    assert_eq!(
        told(
            "eth_getTransactionReceipt",
            r#"{"blockHash":"0xa","blockNumber":"0x10","status":"0x1"}"#
        ),
        Some(told::Block::OfTransaction(16, "0xa".into()))
    );
    assert_eq!(told("eth_getTransactionByHash", r#"{"blockNumber":null}"#), None);
    assert_eq!(told("eth_getTransactionReceipt", "null"), None);
    assert_eq!(told("eth_blockNumber", r#""0x11""#), Some(told::Block::Head(17)));
    assert_eq!(told("eth_gasPrice", r#""0x11""#), None);
}

fn chain(flashblock_time: &str) -> config::Chain {
    let text = format!(
        "[chains.test]\nchain_id = 1\nrpc_urls = [\"http://127.0.0.1:9\"]\nblock_time = \"2s\"\n{flashblock_time}"
    );
    Config::from_toml(&text).unwrap().chains.remove(0)
}

#[test]
fn answers_hold_as_long_as_what_they_depend_on_counted_from_the_question() {
    let asked = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let (with, without) = (chain("flashblock_time = \"250ms\""), chain(""));
    let result = |json: &'static str| Answer::Result(Bytes::from_static(json.as_bytes()));
    let millis = |answer: Answer, hold, chain| {
        Kept::new(answer, asked, hold, chain).good_for(asked).as_millis()
    };
    assert_eq!(millis(result("1"), Hold::Flashblock, &with), 250);
    assert_eq!(millis(result("1"), Hold::Flashblock, &without), 0);
    assert_eq!(millis(result("1"), Hold::UntilNextBlock, &with), 2000);
    assert_eq!(millis(result("1"), Hold::Long, &with), 600_000);
    for absence in ["null", "[]"] {
        assert_eq!(millis(result(absence), Hold::Long, &with), 250);
        assert_eq!(millis(result(absence), Hold::UntilNextBlock, &with), 2000);
    }
    for hold in [Hold::Flashblock, Hold::UntilNextBlock, Hold::Long] {
        assert_eq!(millis(Answer::Error(Bytes::new()), hold, &with), 250);
        assert_eq!(millis(result("1"), Hold::Never, &with), 0);
    }
}

#[tokio::test]
async fn an_answer_that_no_longer_holds_is_made_anew() {
    let answers = answers();
    let key = || Key {
        chain_id: 1,
        head: None,
        method: "eth_call",
        reuse: Reuse::WhileGood,
        params: [0; 32],
    };
    let make = |hold| {
        let answer = Answer::Result(Bytes::from_static(b"1"));
        Kept::new(answer, Instant::now(), hold, &chain(""))
    };
    // Without flashblocks it is not good for any time at all.
    let outcome = answers.try_get_with(key(), async { Ok::<_, ()>(make(Hold::Flashblock)) }).await;
    assert!(outcome.is_ok());
    assert!(answers.get(&key()).await.is_none());
    let outcome =
        answers.try_get_with(key(), async { Ok::<_, ()>(make(Hold::UntilNextBlock)) }).await;
    assert!(outcome.is_ok());
    assert!(answers.get(&key()).await.is_some());
}
