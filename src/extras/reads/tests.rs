//! Parameter checks of each method.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::cache::{CacheLifetime, CachedResponse};
use super::chain_keys::RpcMethod;
use super::method::{Methods, ReadMethod};
use super::state_scope::StateScope::{self, Block, Fixed, Head, Pending};
use super::*;
use crate::config::tests::chain;

const ADDRESS: &str = "\"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"";
const HASH: &str = "\"0xe670ec64341771606e55d6b4ca35a1a6b75ee3d5145a99d05921026d1527331a\"";

/// Expected scope or error. `@` stands for an address, `#` for a hash.
fn scope_of_call(method: &str, params: &str) -> Result<StateScope, String> {
    let params = params.replace('@', ADDRESS).replace('#', HASH);
    let params: &RawValue = serde_json::from_str(&params).unwrap();
    let methods = Methods::from_config(None, true);
    let Some(ReadMethod::Known(known)) = methods.get(method) else { panic!("{method} is known") };
    known.state_scope(params).map_err(|invalid| invalid.to_string())
}

#[test]
fn the_named_block_decides_the_state_scope() {
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
            ("eth_createAccessList", "[{\"from\":@},T]"),
            ("eth_getProof", "[@,[],T]"),
            ("eth_getProof", "[@,[\"0x0\",\"3\"],T]"),
            ("eth_getBlockReceipts", "[T]"),
            ("eth_getBlockTransactionCountByNumber", "[T]"),
            ("eth_getTransactionByBlockNumberAndIndex", "[T,\"0x0\"]"),
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
            assert_eq!(scope_of_call(method, &named), Ok(expected), "{method} {named}");
        }
    }
}

#[test]
fn a_state_can_be_named_by_hash_or_object() {
    for (tag, expected) in [
        ("#", Fixed),
        (r#"{"blockHash":#}"#, Fixed),
        (r#"{"blockHash":#,"requireCanonical":false}"#, Fixed),
        (r#"{"blockHash":#,"requireCanonical":true}"#, Head),
        (r#"{"blockNumber":"0x7"}"#, Block(7)),
        (r#"{"blockNumber":"pending"}"#, Pending),
    ] {
        assert_eq!(scope_of_call("eth_getBalance", &format!("[@,{tag}]")), Ok(expected), "{tag}");
        assert_eq!(scope_of_call("eth_call", &format!("[{{}},{tag}]")), Ok(expected), "{tag}");
    }
    for (method, params) in [
        ("eth_getLogs", "[{\"blockHash\":#,\"address\":[@,@]}]"),
        ("eth_getBlockByHash", "[#,false]"),
        ("eth_getBlockReceipts", "[#]"),
        ("eth_getBlockTransactionCountByHash", "[#]"),
        ("eth_getTransactionByBlockHashAndIndex", "[#,\"0x1\"]"),
        ("eth_getProof", "[@,[],#]"),
    ] {
        assert_eq!(scope_of_call(method, params), Ok(Fixed), "{method} {params}");
    }
}

#[test]
fn without_a_named_block_the_scope_is_pending() {
    for (method, params) in [
        ("eth_call", "[{}]"),
        ("eth_call", "[{},null,{}]"),
        ("eth_estimateGas", "[{}]"),
        ("eth_createAccessList", "[{}]"),
        ("eth_simulateV1", "[{}]"),
        ("eth_getBalance", "[@]"),
        ("eth_getBalance", "[@,null]"),
        ("eth_getCode", "[@]"),
        ("eth_getTransactionCount", "[@]"),
        ("eth_getStorageAt", "[@,\"0x0\"]"),
        ("eth_getProof", "[@,[]]"),
        ("linea_estimateGas", "[{}]"),
        ("eth_getLogs", "[{}]"),
        (
            "eth_getLogs",
            "[{\"fromBlock\":\"0x1\",\"toBlock\":null,\"topics\":[null,#,[#,null],[]]}]",
        ),
        ("eth_getTransactionReceipt", "[#]"),
        ("eth_getTransactionByHash", "[#]"),
    ] {
        assert_eq!(scope_of_call(method, params), Ok(Pending), "{method} {params}");
    }
    for (method, params) in [
        ("eth_getBlockReceipts", "[{\"blockHash\":#}]"),
        ("eth_getStorageAt", "[@,\"0x003\",\"pending\"]"),
        ("eth_baseFee", "[]"),
        ("eth_config", "[]"),
        ("eth_capabilities", "[]"),
        ("zks_estimateFee", "[{\"to\":@}]"),
        ("zks_gasPerPubdata", "[]"),
        ("eth_blobBaseFee", "[]"),
        ("eth_syncing", "[]"),
        ("net_listening", "[]"),
    ] {
        assert!(scope_of_call(method, params).is_ok(), "{method} {params}");
    }
}

/// Calls, each followed by what is allowed instead.
const INVALID_PARAMS: &str = include_str!("tests/invalid-params.txt");

#[test]
fn invalid_params_are_rejected_with_what_is_allowed() {
    let lines: Vec<_> = INVALID_PARAMS.lines().collect();
    assert_eq!(lines.len(), 126);
    for pair in lines.chunks(2) {
        let (method, params) = pair[0].split_once(' ').unwrap();
        let expected = pair[1].strip_prefix("=> ").unwrap().to_owned();
        assert_eq!(scope_of_call(method, params), Err(expected), "{method} {params}");
    }
    let deep = format!("[{}{},\"latest\"]", "[".repeat(64), "]".repeat(64));
    assert_eq!(scope_of_call("eth_getBalance", &deep), Err("params are nested too deeply".into()));
}

#[test]
fn storage_slots_are_accepted_in_the_unambiguous_forms_of_nodes() {
    let slot = |slot: &str| {
        scope_of_call("eth_getStorageAt", &format!("[@,\"{slot}\",\"latest\"]")).is_ok()
    };
    let digits = |prefix: &str, count: usize| format!("{prefix}{}", "1".repeat(count));
    for accepted in ["0x0", "0x1b4", "0x01", "0xAb", "3", "03", "a", "1B4", "0"] {
        assert!(slot(accepted), "{accepted}");
    }
    // Nodes differ in whether `10` is hex or decimal.
    for rejected in ["", "0x", "10", "010", "g", "0x0g", "-1", "+3", " 3", "x3"] {
        assert!(!slot(rejected), "{rejected}");
    }
    assert!(slot(&digits("0x", 64)) && slot(&digits("a", 63)) && !slot(&digits("", 64)));
    assert!(!slot(&digits("0x", 65)) && !slot(&digits("a", 64)));
}

#[test]
fn a_method_with_a_plus_is_added_to_the_usual_ones() {
    let names = |own: &[&str]| -> Vec<RpcMethod> {
        own.iter().map(|name| RpcMethod::try_from((*name).to_owned()).unwrap()).collect()
    };
    assert!(Methods::from_config(Some(&[]), false).get("eth_call").is_none());
    let added = names(&["+eth_sendRawTransaction", "+debug_traceCall"]);
    let more = Methods::from_config(Some(&added), false);
    for name in ["eth_call", "eth_sendRawTransaction", "debug_traceCall"] {
        assert!(more.get(name).is_some(), "{name}");
    }
    assert!(more.get("+debug_traceCall").is_none() && more.get("eth_subscribe").is_none());
}

#[test]
fn cached_responses_expire_with_their_state_scope() {
    let asked = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let without = chain("block_time = \"2s\"");
    let with = chain("block_time = \"2s\"\nflashblock_time = \"250ms\"");
    let result = |json: &'static str| NodeResponse::Result(Bytes::from_static(json.as_bytes()));
    let millis = |response: NodeResponse, hold, chain| {
        CachedResponse::new(response, asked, hold, chain).fresh_for(asked).as_millis()
    };
    assert_eq!(millis(result("1"), CacheLifetime::Flashblock, &with), 250);
    assert_eq!(millis(result("1"), CacheLifetime::Flashblock, &without), 0);
    assert_eq!(millis(result("1"), CacheLifetime::UntilNextBlock, &with), 2000);
    assert_eq!(millis(result("1"), CacheLifetime::Immutable, &with), 600_000);
    assert_eq!(millis(result("[]"), CacheLifetime::Immutable, &with), 0);
    assert_eq!(millis(result("[]"), CacheLifetime::UntilNextBlock, &with), 2000);
    for policy in
        [CacheLifetime::Flashblock, CacheLifetime::UntilNextBlock, CacheLifetime::Immutable]
    {
        assert_eq!(millis(NodeResponse::Error(Bytes::new()), policy, &with), 250);
        assert_eq!(millis(result("null"), policy, &with), 0);
        assert_eq!(millis(result("1"), CacheLifetime::Never, &with), 0);
    }
}
