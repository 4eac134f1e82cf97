//! ABI of contracts.

use alloy_primitives::{B256, U256, keccak256};

/// Returns the calldata of the function with this signature, of whose arguments each is one word.
pub(crate) fn call(signature: &str, words: &[B256]) -> Vec<u8> {
    let selector = keccak256(signature);
    selector.iter().take(4).chain(words.iter().flatten()).copied().collect()
}

/// Returns the number at this byte of return data.
pub(crate) fn number(returned: &[u8], at: usize) -> Option<U256> {
    U256::try_from_be_slice(returned.get(at..)?.get(..32)?)
}

/// Returns the text that is all of this return data.
pub(crate) fn text(returned: &[u8]) -> Option<&str> {
    let start = number(returned, 0)?.try_into().ok()?;
    let length = number(returned, start)?.try_into().ok()?;
    str::from_utf8(returned.get(start..)?.get(32..)?.get(..length)?).ok()
}
