//! Messages between replicas. A lost message is made up for by the next slot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::connection::MessageHandler;
use super::shared_fee_history::SharedFeeHistory;
use crate::upstream::ChainUpstreams;

/// Newest unread messages of one chain.
#[derive(Debug, Clone, Default)]
pub(super) struct Inbox {
    /// A published record that has not been read.
    pub(super) value: Option<ValueMessage>,
    /// Slot of a failed poll.
    pub(super) failed_slot: Option<u64>,
}

/// A published record.
#[derive(Debug, Clone)]
pub(super) struct ValueMessage {
    /// Time of sending by Redis' clock in microseconds.
    pub(super) sent_us: u64,
    pub(super) received_at: Instant,
    pub(super) record: Bytes,
}

/// Creates the handler of a chain's messages and its inbox.
pub(super) fn open_inbox(
    upstreams: &Arc<ChainUpstreams>,
) -> (MessageHandler, watch::Receiver<Inbox>) {
    let (sender, inbox) = watch::channel(Inbox::default());
    let upstreams = Arc::downgrade(upstreams);
    let handler = move |message: Bytes| match parse(&message) {
        Some(Message::Value(value)) => sender.send_modify(|inbox| inbox.value = Some(value)),
        Some(Message::PollFailed(slot)) => {
            sender.send_modify(|inbox| inbox.failed_slot = Some(slot));
        }
        Some(Message::CoolDown(fingerprint, wait)) => {
            let upstreams = upstreams.upgrade();
            let nodes = upstreams.iter().flat_map(|upstreams| upstreams.all());
            nodes
                .filter(|node| node.fingerprint() == fingerprint)
                .for_each(|node| node.record_rate_limit(wait));
        }
        // Passed on as well, so that it is counted as invalid.
        None => {
            let value =
                ValueMessage { sent_us: 0, received_at: Instant::now(), record: Bytes::new() };
            sender.send_modify(|inbox| inbox.value = Some(value));
        }
    };
    (Box::new(handler), inbox)
}

#[derive(Debug)]
enum Message<'a> {
    Value(ValueMessage),
    PollFailed(u64),
    CoolDown(&'a str, Duration),
}

/// Builds the message that the poll of `slot` failed.
pub(super) fn failure_message(slot: u64) -> String {
    format!("failed {slot}")
}

/// Builds the message that an upstream asked for a pause.
pub(super) fn cool_down_message(fingerprint: &str, millis: u64) -> String {
    format!("cool {fingerprint} {millis}")
}

fn parse(message: &Bytes) -> Option<Message<'_>> {
    /// Maximum length of the words before the record.
    const MAX_HEADER_BYTES: usize = 64;
    if message.len() > SharedFeeHistory::MAX_BYTES + MAX_HEADER_BYTES {
        return None;
    }
    let (kind, rest) = split_word(message)?;
    match kind {
        b"value" => {
            let (sent, line) = split_word(rest)?;
            let (sent_us, record) = (parse_number(sent)?, message.slice_ref(line));
            Some(Message::Value(ValueMessage { sent_us, received_at: Instant::now(), record }))
        }
        b"failed" => Some(Message::PollFailed(parse_number(rest)?)),
        b"cool" => {
            let (fingerprint, millis) = split_word(rest)?;
            let wait = Duration::from_millis(parse_number(millis)?);
            Some(Message::CoolDown(str::from_utf8(fingerprint).ok()?, wait))
        }
        _ => None,
    }
}

/// Returns the first word and the rest.
fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    Some((text.get(..space)?, text.get(space.saturating_add(1)..)?))
}

fn parse_number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_replica_messages_are_parsed() {
        let parse = |text: &str| format!("{:?}", parse(&Bytes::from(text.to_owned())));
        let value = parse("value 17 a line of words");
        assert!(value.contains("sent_us: 17") && value.contains("a line of words"), "{value}");
        assert_eq!(parse(&failure_message(9)), "Some(PollFailed(9))");
        assert_eq!(parse(&cool_down_message("ab", 1500)), "Some(CoolDown(\"ab\", 1.5s))");
        for wrong in ["", "value", "value x line", "failed", "failed -1", "cool ab", "other 1"] {
            assert_eq!(parse(wrong), "None", "{wrong}");
        }
        assert_eq!(parse(&format!("value 1 {}", "x".repeat(1 << 20))), "None");
    }
}
