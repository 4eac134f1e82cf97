//! Values with units in the configuration: durations (`"2s"`) and sizes (`"64 KiB"`).

use std::time::Duration;

use serde::de::Deserializer;
use serde::ser::{Serialize, Serializer};

use crate::fees::amount::ParsedVisitor;
pub(crate) use crate::fees::amount::parse_digits;

/// A duration such as `"2s"` or `"250ms"`. A bare number is rejected, because its unit would be a guess.
pub(crate) mod duration {
    use super::{Deserializer, Duration, ParsedVisitor, Serializer, duration_text};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
        input.deserialize_str(ParsedVisitor {
            expected: "a duration such as \"2s\" or \"250ms\"",
            parse: |text| humantime::parse_duration(text).ok(),
        })
    }

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&duration_text(*duration))
    }
}

/// Like [`duration`], for an optional key.
pub(crate) mod optional_duration {
    use super::{Deserializer, Duration, Serialize, Serializer, duration, duration_text};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<Option<Duration>, D::Error> {
        duration::deserialize(input).map(Some)
    }

    #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(duration_text).serialize(out)
    }
}

/// Returns a duration as in a configuration, rounded down to milliseconds or, if it is long, to seconds.
pub(crate) fn duration_text(duration: Duration) -> String {
    const MAX_SECONDS: u64 = 600;
    match (duration.as_secs(), duration.subsec_millis()) {
        (seconds @ 0..=MAX_SECONDS, 0) => format!("{seconds}s"),
        (0..=MAX_SECONDS, _) => format!("{}ms", duration.as_millis()),
        (seconds, _) => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

/// A size such as `"64 KiB"`, in bytes.
pub(crate) mod size {
    use super::{Deserializer, ParsedVisitor, Serializer, parse_size, size_text};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<usize, D::Error> {
        input.deserialize_str(ParsedVisitor {
            expected: "a size such as \"64 KiB\" or \"1 MiB\"",
            parse: parse_size,
        })
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn serialize<S: Serializer>(bytes: &usize, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&size_text(*bytes))
    }
}

/// Returns a size in the largest unit that divides it.
fn size_text(bytes: usize) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    let fits = |(_, size): &(&str, usize)| bytes >= *size && bytes.is_multiple_of(*size);
    let (unit, size) = units.into_iter().find(fits).unwrap_or(("B", 1));
    format!("{} {unit}", bytes / size)
}

pub(super) fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = text.trim().split_once(' ')?;
    let bytes: usize = match unit.trim_start() {
        "B" => 1,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        "GiB" => 1024 * 1024 * 1024,
        _ => return None,
    };
    parse_digits::<usize>(number)?.checked_mul(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(parse_size("256 KiB"), Some(262_144));
        assert_eq!(parse_size("32 MiB"), Some(33_554_432));
        assert_eq!(parse_size("2 GiB"), Some(2_147_483_648));
        assert_eq!(parse_size("7 B"), Some(7));
        for wrong in ["256", "KiB", "256KiB", "1 KB", "1 kib", "-1 B", "+1 B", "1.5 MiB", ""] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(parse_size("18446744073709551615 KiB"), None);
    }
}
