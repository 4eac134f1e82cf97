//! A hand-written contract, so that tests with real nodes need no compiler.
//!
//! ```text
//! stored()                        the word in slot 0
//! store(uint256)                  writes slot 0 and logs Stored(uint256)
//! spend(address,uint256)          reverts with the reason "nothing stored" while slot 0 holds 0
//! refuse(uint256,uint256,uint256) reverts with the error Refused(uint256) and the word of slot 0
//! ```
//!
//! It dispatches on the length of the call data alone: 4, 36, 68 bytes, or any other.

/// The runtime bytecode.
pub(crate) const RUNTIME: &str = concat!(
    "0x",
    // CALLDATASIZE, then thrice: DUP1 PUSH1 length EQ PUSH1 destination JUMPI.
    "36",
    "80600414602957",
    "80602414603257",
    "80604414606157",
    // PUSH4 Refused(uint256), shifted to the left by 224 bits and kept at 0.
    "63590a515160e01b5f52",
    // Then the word of slot 0: PUSH0 SLOAD PUSH1 4 MSTORE; PUSH1 36 PUSH0 REVERT.
    "5f54600452",
    "60245ffd",
    // 0x29: JUMPDEST PUSH0 SLOAD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN.
    "5b5f545f5260205ff3",
    // 0x32: JUMPDEST PUSH1 4 CALLDATALOAD, DUP1 PUSH0 SSTORE, PUSH0 MSTORE.
    "5b600435805f555f52",
    // PUSH32 Stored(uint256) PUSH1 32 PUSH0 LOG1 STOP.
    "7fc6d8c0af6d21f291e7c359603aa97e0ed500f04db6e983b9fce75a91c6b8da6b60205fa100",
    // 0x61: JUMPDEST PUSH0 SLOAD PUSH1 0xa3 JUMPI: a non-zero word skips the revert.
    "5b5f5460a357",
    // Error(string) at 0, then the string's offset 32, its length 14 and its bytes.
    "6308c379a060e01b5f52",
    "6020600452",
    "600e602452",
    "7f6e6f7468696e672073746f726564000000000000000000000000000000000000604452",
    // PUSH1 100 PUSH0 REVERT.
    "60645ffd",
    // 0xa3: JUMPDEST STOP.
    "5b00",
);

/// The topic of the log that `store` writes.
pub(crate) const STORED_TOPIC: &str =
    "0xc6d8c0af6d21f291e7c359603aa97e0ed500f04db6e983b9fce75a91c6b8da6b";

/// Returns the data of the transaction that creates the contract.
pub(crate) fn creation() -> String {
    // PUSH1 165, the length of what follows, DUP1 PUSH1 9 PUSH0 CODECOPY PUSH0 RETURN.
    RUNTIME.replacen("0x", "0x60a58060095f395ff3", 1)
}

/// Encodes `store(value)`.
pub(crate) fn store(value: u64) -> String {
    format!("0x6057361d{}", word(value))
}

/// Encodes 32 bytes in hex, without a prefix.
pub(crate) fn word(value: u64) -> String {
    format!("{value:064x}")
}
