//! Parser of serialised transactions, as far as their cost depends on them.

use alloy_rlp::{Decodable, EMPTY_LIST_CODE, EMPTY_STRING_CODE, Header, PayloadView};

/// A transaction, signed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// `None`: a legacy transaction that is valid on every chain.
    pub(crate) chain_id: Option<u64>,
    pub(crate) is_signed: bool,
    pub(crate) blobs: u64,
}

/// Number of items of an unsigned transaction of each type; a signed one has three more.
const UNSIGNED_ITEMS: [(u8, usize); 4] = [(1, 8), (2, 9), (3, 11), (4, 10)];

/// Position of the blob hashes in a transaction of type 3.
const BLOB_HASHES: usize = 10;

impl Transaction {
    /// Parses a transaction of type 0 to 4.
    ///
    /// # Errors
    ///
    /// Returns what is expected instead.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        match bytes.split_first() {
            Some((EMPTY_LIST_CODE.., _)) => {
                Self::parse_legacy(bytes).ok_or("must be a legacy transaction")
            }
            Some((kind, payload)) => {
                let known = UNSIGNED_ITEMS.iter().find(|(known, _)| known == kind);
                let (_, unsigned) = known.ok_or("must be a transaction of type 0 to 4")?;
                Self::parse_typed(payload, *unsigned, *kind == 3)
                    .ok_or("must be a transaction of the type that its first byte names")
            }
            None => Err("must not be empty"),
        }
    }

    fn parse_typed(payload: &[u8], unsigned: usize, has_blobs: bool) -> Option<Self> {
        let items = list_items(payload)?;
        let is_signed = items.len() == unsigned.checked_add(3)?;
        if !is_signed && items.len() != unsigned {
            return None;
        }
        let blobs = match items.get(BLOB_HASHES).filter(|_| has_blobs) {
            Some(hashes) => u64::try_from(list_items(hashes)?.len()).ok()?,
            None => 0,
        };
        Some(Self { chain_id: Some(number(items.first()?)?), is_signed, blobs })
    }

    fn parse_legacy(bytes: &[u8]) -> Option<Self> {
        /// Items without a signature, and with one or what stands for it.
        const UNSIGNED: usize = 6;
        /// `v` of signatures with a chain id: 35 + 2 × the id, or one more (EIP-155).
        const FIRST_WITH_CHAIN_ID: u64 = 35;
        let items = list_items(bytes)?;
        let (chain_id, is_signed) = match items.get(UNSIGNED..)? {
            [] => (None, false),
            [id, [EMPTY_STRING_CODE], [EMPTY_STRING_CODE]] => (Some(number(id)?), false),
            [v, [(..EMPTY_LIST_CODE), ..], [(..EMPTY_LIST_CODE), ..]] => {
                (number(v)?.checked_sub(FIRST_WITH_CHAIN_ID).map(|twice| twice / 2), true)
            }
            _ => return None,
        };
        Some(Self { chain_id, is_signed, blobs: 0 })
    }
}

/// Returns the items of a list that is all of `bytes`, each with its header.
fn list_items(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    match Header::decode_raw(&mut bytes).ok()? {
        PayloadView::List(items) if bytes.is_empty() => Some(items),
        _ => None,
    }
}

fn number(mut item: &[u8]) -> Option<u64> {
    u64::decode(&mut item).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&[u8]]) -> Vec<u8> {
        let content = items.concat();
        match u8::try_from(content.len()) {
            Ok(short @ 0..56) => [&[0xc0 + short], &content[..]].concat(),
            Ok(length) => [&[0xf8, length], &content[..]].concat(),
            Err(_) => {
                let length = u16::try_from(content.len()).unwrap().to_be_bytes();
                [&[0xf9], &length[..], &content].concat()
            }
        }
    }

    fn typed(kind: u8, count: usize, id: &[u8]) -> Vec<u8> {
        let mut items = vec![&[0x80][..]; count];
        items[0] = id;
        if kind == 3 {
            items[BLOB_HASHES] = &[0xc2, 0x80, 0x80];
        }
        [&[kind], &list(&items)[..]].concat()
    }

    #[test]
    fn each_type_has_its_chain_id_with_and_without_a_signature() {
        for (kind, unsigned) in UNSIGNED_ITEMS {
            for (count, is_signed) in [(unsigned, false), (unsigned + 3, true)] {
                let parsed = Transaction::parse(&typed(kind, count, &[0x82, 0x21, 0x05])).unwrap();
                let blobs = if kind == 3 { 2 } else { 0 };
                assert_eq!(parsed, Transaction { chain_id: Some(8453), is_signed, blobs });
            }
            assert!(Transaction::parse(&typed(kind, unsigned + 1, &[1])).is_err());
        }
        let legacy = |last: &[&[u8]]| {
            let items = [&[&[0x80][..]; 6][..], last].concat();
            let parsed = Transaction::parse(&list(&items)).unwrap();
            (parsed.chain_id, parsed.is_signed)
        };
        assert_eq!(legacy(&[]), (None, false));
        assert_eq!(legacy(&[&[7], &[0x80], &[0x80]]), (Some(7), false));
        assert_eq!(legacy(&[&[28], &[1], &[1]]), (None, true));
        assert_eq!(legacy(&[&[50], &[1], &[1]]), (Some(7), true));
    }

    #[test]
    fn what_is_no_transaction_is_refused() {
        let valid = typed(2, 9, &[1]);
        let cut = &valid[..valid.len() - 1];
        let longer = [&valid[..], &[0]].concat();
        let long_id = typed(2, 9, &[0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let no_hashes = [&[3], &list(&[&[0x80][..]; 11])[..]].concat();
        for bytes in [&[][..], &[0], &[5, 0xc0], &[0x7e, 0xc0], &[0x80], &[2], &[0xc0], &[0xf9, 1]]
        {
            assert!(Transaction::parse(bytes).is_err(), "{bytes:?}");
        }
        for bytes in [cut, &longer, &long_id, &no_hashes] {
            assert!(Transaction::parse(bytes).is_err(), "{bytes:?}");
        }
        assert!(Transaction::parse(&[0xff; 20]).is_err());
    }
}
