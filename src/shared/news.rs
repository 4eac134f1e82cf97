//! What replicas tell each other as it happens. A message that is lost is made up for by the next turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::link::Ear;
use super::publication::Publication;
use crate::rpc::Upstreams;

/// The newest of what was heard of a chain.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    /// A value that was published, not read yet.
    pub(super) value: Option<Message>,
    /// The slot of a poll that gave nothing.
    pub(super) failed: Option<u64>,
}

/// A line that was published.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// By Redis' clock, in microseconds.
    pub(super) sent: u64,
    pub(super) received: Instant,
    pub(super) line: Bytes,
}

/// What takes the messages about a chain, and what is left of them.
pub(super) fn of_chain(upstreams: &Arc<Upstreams>) -> (Ear, watch::Receiver<Heard>) {
    let (tell, heard) = watch::channel(Heard::default());
    let upstreams = Arc::downgrade(upstreams);
    let ear = move |message: Bytes| match read(&message) {
        Some(News::Value(value)) => tell.send_modify(|heard| heard.value = Some(value)),
        Some(News::Failed(slot)) => tell.send_modify(|heard| heard.failed = Some(slot)),
        Some(News::CoolDown(alias, wait)) => {
            let upstreams = upstreams.upgrade();
            let named = upstreams.iter().flat_map(|upstreams| upstreams.all());
            named.filter(|node| node.alias() == alias).for_each(|node| node.is_rate_limiting(wait));
        }
        // A value all the same, so that it is counted.
        None => {
            let value = Message { sent: 0, received: Instant::now(), line: Bytes::new() };
            tell.send_modify(|heard| heard.value = Some(value));
        }
    };
    (Box::new(ear), heard)
}

#[derive(Debug)]
enum News<'a> {
    Value(Message),
    Failed(u64),
    CoolDown(&'a str, Duration),
}

/// That a poll for `slot` gave nothing.
pub(super) fn of_failure(slot: u64) -> String {
    format!("failed {slot}")
}

/// That an upstream has asked to be left alone.
pub(super) fn of_cool_down(alias: &str, millis: u64) -> String {
    format!("cool {alias} {millis}")
}

fn read(message: &Bytes) -> Option<News<'_>> {
    /// More than all words before the line.
    const MARGIN: usize = 64;
    if message.len() > Publication::MAX_BYTES + MARGIN {
        return None;
    }
    let (kind, rest) = split(message)?;
    match kind {
        b"value" => {
            let (sent, line) = split(rest)?;
            let (sent, line) = (number(sent)?, message.slice_ref(line));
            Some(News::Value(Message { sent, received: Instant::now(), line }))
        }
        b"failed" => Some(News::Failed(number(rest)?)),
        b"cool" => {
            let (alias, millis) = split(rest)?;
            let wait = Duration::from_millis(number(millis)?);
            Some(News::CoolDown(str::from_utf8(alias).ok()?, wait))
        }
        _ => None,
    }
}

/// The first word, and what is behind it.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = text.iter().position(|byte| *byte == b' ')?;
    Some((text.get(..space)?, text.get(space.saturating_add(1)..)?))
}

fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_replicas_say_is_understood_and_nothing_else() {
        let read = |text: &str| format!("{:?}", read(&Bytes::from(text.to_owned())));
        let value = read("value 17 a line of words");
        assert!(value.contains("sent: 17") && value.contains("a line of words"), "{value}");
        assert_eq!(read(&of_failure(9)), "Some(Failed(9))");
        assert_eq!(read(&of_cool_down("ab", 1500)), "Some(CoolDown(\"ab\", 1.5s))");
        for wrong in ["", "value", "value x line", "failed", "failed -1", "cool ab", "other 1"] {
            assert_eq!(read(wrong), "None", "{wrong}");
        }
        assert_eq!(read(&format!("value 1 {}", "x".repeat(1 << 20))), "None");
    }
}
