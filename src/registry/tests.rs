use alloy_primitives::{address, hex, uint};
use proptest::prelude::*;

use super::*;

const VAULT: Address = address!("0x00000000000000000000000000000000000000a1");
const HOT: Address = address!("0x00000000000000000000000000000000000000b2");
const CONTRACT: Address = address!("0x00000000000000000000000000000000000000c3");

/// `0x6c…` as one word.
fn word(byte: u8) -> String {
    format!("{byte:064x}")
}

/// "claim", padded on its right.
fn claim() -> B256 {
    B256::right_padding_from(b"claim")
}

fn check(scope: Scope) -> String {
    hex::encode(Check { to: HOT, from: VAULT, rights: claim(), scope }.calldata())
}

fn grant(extent: Extent) -> String {
    hex::encode(Grant { to: HOT, rights: claim(), extent }.calldata())
}

#[test]
fn every_call_has_its_selector_and_its_words_in_the_contracts_order() {
    let (to, from, contract, seven) = (word(0xb2), word(0xa1), word(0xc3), word(7));
    let rights = format!("636c61696d{}", "0".repeat(54));
    let (contract_, token_id, amount) = (CONTRACT, U256::from(7), U256::from(1000));
    let thousand = format!("{:064x}", 1000);
    for (calldata, words) in [
        (check(Scope::All), ["e839bd53", &to, &from, &rights].concat()),
        (
            check(Scope::Contract { contract: contract_ }),
            ["8988eea9", &to, &from, &contract, &rights].concat(),
        ),
        (
            check(Scope::Erc721 { contract: contract_, token_id }),
            ["b9f36874", &to, &from, &contract, &seven, &rights].concat(),
        ),
        (
            check(Scope::Erc20 { contract: contract_ }),
            ["ba63c817", &to, &from, &contract, &rights].concat(),
        ),
        (
            check(Scope::Erc1155 { contract: contract_, token_id }),
            ["b8705875", &to, &from, &contract, &seven, &rights].concat(),
        ),
        (grant(Extent::All { enable: true }), ["30ff3140", &to, &rights, &word(1)].concat()),
        (
            grant(Extent::Contract { contract: contract_, enable: false }),
            ["d90e73ab", &to, &contract, &rights, &word(0)].concat(),
        ),
        (
            grant(Extent::Erc721 { contract: contract_, token_id, enable: true }),
            ["b18e2bbb", &to, &contract, &seven, &rights, &word(1)].concat(),
        ),
        (
            grant(Extent::Erc20 { contract: contract_, amount }),
            ["003c2ba6", &to, &contract, &rights, &thousand].concat(),
        ),
        (
            grant(Extent::Erc1155 { contract: contract_, token_id, amount }),
            ["ab764683", &to, &contract, &seven, &rights, &thousand].concat(),
        ),
        (hex::encode(Direction::Incoming.calldata(HOT)), ["42f87c25", to.as_str()].concat()),
        (hex::encode(Direction::Outgoing.calldata(HOT)), ["51525e9a", to.as_str()].concat()),
    ] {
        assert_eq!(calldata, words);
    }
}

fn read(scope: Scope, returned: &str) -> Result<Permission, NotAnAnswer> {
    let check = Check { to: HOT, from: VAULT, rights: B256::ZERO, scope };
    check.read(&hex::decode(returned).unwrap())
}

#[test]
fn a_check_is_a_boolean_or_an_amount() {
    assert_eq!(read(Scope::All, &word(1)), Ok(Permission::Is(true)));
    assert_eq!(read(Scope::All, &word(0)), Ok(Permission::Is(false)));
    let erc20 = Scope::Erc20 { contract: CONTRACT };
    assert_eq!(read(erc20, &"f".repeat(64)), Ok(Permission::UpTo(U256::MAX)));
    assert_eq!(read(erc20, &word(55)), Ok(Permission::UpTo(uint!(55_U256))));
}

#[test]
fn nothing_returned_is_no_registry_and_never_false() {
    let erc20 = Scope::Erc20 { contract: CONTRACT };
    for scope in [Scope::All, erc20] {
        assert_eq!(read(scope, ""), Err(NotAnAnswer::Absent));
    }
    assert_eq!(Delegation::read_list(&[]), Err(NotAnAnswer::Absent));
}

#[test]
fn what_no_registry_returns_is_no_answer() {
    let twice = [word(0), word(0)].concat();
    for returned in [&word(2), "00", &"f".repeat(64), &word(1)[..62], &twice] {
        assert_eq!(read(Scope::All, returned), Err(NotAnAnswer::Malformed), "{returned}");
    }
    let seven_words = [word(1), word(2), word(3), word(0), word(0), word(0), word(0)].concat();
    for returned in [
        word(1),
        // No list, but read as an empty one.
        word(0),
        [word(0), word(0)].concat(),
        // Longer than it is.
        [word(32), word(2), seven_words.clone()].concat(),
        [word(32), "f".repeat(64), seven_words.clone()].concat(),
        // Of a type that there is not.
        [word(32), word(1), word(6), seven_words[64..].to_owned()].concat(),
        // An address of more than 20 bytes.
        [word(32), word(1), word(1), "1".repeat(64), seven_words[128..].to_owned()].concat(),
    ] {
        let read = Delegation::read_list(&hex::decode(&returned).unwrap());
        assert_eq!(read, Err(NotAnAnswer::Malformed), "{returned}");
    }
}

#[test]
fn an_empty_list_is_one_only_as_a_registry_writes_it() {
    let returned = hex::decode([word(32), word(0)].concat()).unwrap();
    assert_eq!(Delegation::read_list(&returned), Ok(vec![]));
}

#[test]
fn a_listed_delegation_has_the_members_of_its_kind() {
    let listed = |kind: u8, amount: &str| {
        let words = [word(0xb2), word(0xa1), hex::encode(claim()), word(0xc3), word(7)].concat();
        let returned = [&word(32), &word(1), &word(kind), &words, amount].concat();
        let listed = Delegation::read_list(&hex::decode(returned).unwrap()).unwrap();
        serde_json::to_string(&listed).unwrap()
    };
    let expected = |kind: &str, contract: &str, token_id: &str, amount: &str| {
        format!(
            "[{{\"type\":\"{kind}\",\"from\":\"0x00000000000000000000000000000000000000A1\",\
             \"to\":\"0x00000000000000000000000000000000000000b2\",\"contract\":{contract},\
             \"tokenId\":{token_id},\"rights\":\"0x{}\",\"amount\":{amount}}}]",
            hex::encode(claim())
        )
    };
    let contract = "\"0x00000000000000000000000000000000000000C3\"";
    let most = format!("\"{}\"", U256::MAX);
    assert_eq!(listed(1, &word(9)), expected("ALL", "null", "null", "null"));
    assert_eq!(listed(2, &word(9)), expected("CONTRACT", contract, "null", "null"));
    assert_eq!(listed(3, &word(9)), expected("ERC721", contract, "\"7\"", "null"));
    assert_eq!(listed(4, &word(9)), expected("ERC20", contract, "null", "\"9\""));
    assert_eq!(listed(5, &"f".repeat(64)), expected("ERC1155", contract, "\"7\"", &most));
}

proptest! {
    #[test]
    fn no_returned_bytes_are_too_strange(returned in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = read(Scope::All, &hex::encode(&returned));
        let _ = Delegation::read_list(&returned);
    }

    #[test]
    fn any_amount_is_read_to_its_last_digit(amount in any::<[u8; 32]>()) {
        let amount = U256::from_be_bytes(amount);
        let erc1155 = Scope::Erc1155 { contract: CONTRACT, token_id: U256::ZERO };
        prop_assert_eq!(read(erc1155, &format!("{amount:064x}")), Ok(Permission::UpTo(amount)));
    }
}
