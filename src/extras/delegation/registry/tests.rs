use alloy_primitives::{address, hex};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const VAULT: Address = address!("0x00000000000000000000000000000000000000a1");
const HOT_WALLET: Address = address!("0x00000000000000000000000000000000000000b2");
const CONTRACT: Address = address!("0x00000000000000000000000000000000000000c3");

/// Encodes a number as one word of the ABI, in hex.
fn word(byte: u8) -> String {
    format!("{byte:064x}")
}

/// "claim", padded on the right.
fn claim_rights() -> B256 {
    B256::right_padding_from(b"claim")
}

fn check_calldata(scope: CheckScope) -> String {
    hex::encode(Check { to: HOT_WALLET, from: VAULT, rights: claim_rights(), scope }.calldata())
}

#[test]
fn calldata_has_the_selector_and_arguments_in_contract_order() {
    let (to, from, contract, seven) = (word(0xb2), word(0xa1), word(0xc3), word(7));
    let rights = format!("636c61696d{}", "0".repeat(54));
    let (contract_, token_id) = (CONTRACT, U256::from(7));
    for (calldata, words) in [
        (check_calldata(CheckScope::All), ["e839bd53", &to, &from, &rights].concat()),
        (
            check_calldata(CheckScope::Contract { contract: contract_ }),
            ["8988eea9", &to, &from, &contract, &rights].concat(),
        ),
        (
            check_calldata(CheckScope::Erc721 { contract: contract_, token_id }),
            ["b9f36874", &to, &from, &contract, &seven, &rights].concat(),
        ),
        (
            check_calldata(CheckScope::Erc20 { contract: contract_ }),
            ["ba63c817", &to, &from, &contract, &rights].concat(),
        ),
        (
            check_calldata(CheckScope::Erc1155 { contract: contract_, token_id }),
            ["b8705875", &to, &from, &contract, &seven, &rights].concat(),
        ),
        (hex::encode(Direction::Incoming.calldata(HOT_WALLET)), ["42f87c25", to.as_str()].concat()),
        (hex::encode(Direction::Outgoing.calldata(HOT_WALLET)), ["51525e9a", to.as_str()].concat()),
    ] {
        assert_eq!(calldata, words);
    }
}

fn decode_check(scope: CheckScope, returned: &str) -> Result<Value, RegistryError> {
    let check = Check { to: HOT_WALLET, from: VAULT, rights: B256::ZERO, scope };
    check.decode_result(&hex::decode(returned).unwrap())
}

fn decode_list(returned: &str) -> Result<Vec<Delegation>, RegistryError> {
    Delegation::decode_list(&hex::decode(returned).unwrap())
}

#[test]
fn check_result_is_a_boolean_or_an_amount() {
    assert_eq!(decode_check(CheckScope::All, &word(1)), Ok(json!(true)));
    assert_eq!(decode_check(CheckScope::All, &word(0)), Ok(json!(false)));
    let erc20 = CheckScope::Erc20 { contract: CONTRACT };
    assert_eq!(decode_check(erc20, &"f".repeat(64)), Ok(json!(U256::MAX.to_string())));
    assert_eq!(decode_check(erc20, &word(55)), Ok(json!("55")));
}

#[test]
fn empty_return_data_means_no_contract() {
    let erc20 = CheckScope::Erc20 { contract: CONTRACT };
    for scope in [CheckScope::All, erc20] {
        assert_eq!(decode_check(scope, ""), Err(RegistryError::NoContract));
    }
    assert_eq!(decode_list(""), Err(RegistryError::NoContract));
}

#[test]
fn malformed_return_data_is_rejected() {
    let twice = [word(0), word(0)].concat();
    for returned in [&word(2), "00", &"f".repeat(64), &word(1)[..62], &twice] {
        let decoded = decode_check(CheckScope::All, returned);
        assert_eq!(decoded, Err(RegistryError::Invalid), "{returned}");
    }
    let seven_words = [word(1), word(2), word(3), word(0), word(0), word(0), word(0)].concat();
    for returned in [
        word(1),
        // No list, but would decode as an empty one.
        word(0),
        [word(0), word(0)].concat(),
        // A length beyond the data.
        [word(32), word(2), seven_words.clone()].concat(),
        [word(32), "f".repeat(64), seven_words.clone()].concat(),
        // An unknown delegation type.
        [word(32), word(1), word(6), seven_words[64..].to_owned()].concat(),
        // An address of more than 20 bytes.
        [word(32), word(1), word(1), "1".repeat(64), seven_words[128..].to_owned()].concat(),
    ] {
        assert_eq!(decode_list(&returned), Err(RegistryError::Invalid), "{returned}");
    }
}

#[test]
fn a_list_may_be_empty_or_have_a_delegation_to_oneself() {
    assert_eq!(decode_list(&[word(32), word(0)].concat()), Ok(vec![]));
    for (to, is_own) in [(0xa1, true), (0xb2, false)] {
        let entry = [word(0), word(to), word(0xa1), word(0), word(0), word(0), word(0)].concat();
        let listed = decode_list(&[word(32), word(1), entry].concat()).unwrap();
        assert_eq!(listed[0].is_self_delegation(), is_own);
    }
}

#[test]
fn listed_delegation_has_the_members_of_its_type() {
    let listed = |kind: u8, amount: &str| {
        let words =
            [word(0xb2), word(0xa1), hex::encode(claim_rights()), word(0xc3), word(7)].concat();
        let returned = [&word(32), &word(1), &word(kind), &words, amount].concat();
        serde_json::to_string(&decode_list(&returned).unwrap()).unwrap()
    };
    let expected = |kind: &str, contract: &str, token_id: &str, amount: &str| {
        format!(
            "[{{\"type\":\"{kind}\",\"from\":\"0x00000000000000000000000000000000000000A1\",\
             \"to\":\"0x00000000000000000000000000000000000000b2\",\"contract\":{contract},\
             \"tokenId\":{token_id},\"rights\":\"0x{}\",\"amount\":{amount}}}]",
            hex::encode(claim_rights())
        )
    };
    let contract = "\"0x00000000000000000000000000000000000000C3\"";
    let max_amount = format!("\"{}\"", U256::MAX);
    assert_eq!(listed(1, &word(9)), expected("ALL", "null", "null", "null"));
    assert_eq!(listed(2, &word(9)), expected("CONTRACT", contract, "null", "null"));
    assert_eq!(listed(3, &word(9)), expected("ERC721", contract, "\"7\"", "null"));
    assert_eq!(listed(4, &word(9)), expected("ERC20", contract, "null", "\"9\""));
    assert_eq!(listed(5, &"f".repeat(64)), expected("ERC1155", contract, "\"7\"", &max_amount));
}

proptest! {
    #[test]
    fn arbitrary_return_data_never_panics(returned in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = decode_check(CheckScope::All, &hex::encode(&returned));
        let _ = Delegation::decode_list(&returned);
    }
}
