//! Sizes in the configuration, which have a unit: `"64 KiB"`.

use serde::{Deserializer, Serializer};

use crate::fees::amount::ParsedVisitor;
pub(crate) use crate::fees::amount::parse_digits;

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

const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Returns a size in the largest unit that divides it.
fn size_text(bytes: usize) -> String {
    let fits = |(_, size): &(&str, usize)| bytes >= *size && bytes.is_multiple_of(*size);
    let (unit, size) = UNITS.into_iter().find(fits).unwrap_or(("B", 1));
    format!("{} {unit}", bytes / size)
}

pub(super) fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = text.trim().split_once(' ')?;
    let (_, bytes) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start())?;
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
