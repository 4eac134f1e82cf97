//! Values that a node must say twice before they count. Pure.

/// Largest factor by which an amount may move from one reading to the next.
const MAX_FACTOR: u128 = 3;

/// A reading that is compared with the one before.
pub(super) trait Reading {
    /// Returns true if the value may have moved so from that of an earlier reading.
    fn follows(&self, earlier: &Self) -> bool;
}

/// The last reading that counts. One that does not follow it, as the first of all, is kept aside until the next one
/// follows it: a node that was wrong once, or lied once, changes nothing, and what has lastingly changed is soon known.
#[derive(Debug)]
pub(super) struct Confirmed<R> {
    counted: Option<R>,
    aside: Option<R>,
}

impl<R: Reading> Confirmed<R> {
    /// Starts with a reading that counts, if there is one.
    pub(super) fn new(counted: Option<R>) -> Self {
        Self { counted, aside: None }
    }

    /// Records a reading. Returns true if the next one should come soon: this one is kept aside, and is the first.
    pub(super) fn record(&mut self, read: R) -> bool {
        let earlier = [&self.counted, &self.aside];
        if earlier.into_iter().flatten().any(|earlier| read.follows(earlier)) {
            (self.counted, self.aside) = (Some(read), None);
            return false;
        }
        self.aside.replace(read).is_none()
    }

    /// Returns the last reading that counts; `None`: there is none yet.
    pub(super) fn get(&self) -> Option<&R> {
        self.counted.as_ref()
    }
}

/// A reading may say that there is no value.
impl<R: Reading> Reading for Option<R> {
    fn follows(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Some(read), Some(earlier)) => read.follows(earlier),
            (read, earlier) => read.is_none() && earlier.is_none(),
        }
    }
}

/// Returns true if neither amount is more than three times the other.
pub(super) fn is_near(one: u128, other: u128) -> bool {
    one.max(other) <= one.min(other).saturating_mul(MAX_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reading for u128 {
        fn follows(&self, earlier: &Self) -> bool {
            is_near(*self, *earlier)
        }
    }

    #[test]
    fn a_value_that_was_read_once_does_not_count() {
        let mut confirmed = Confirmed::new(None);
        // The reading, whether the next one comes soon, and what counts.
        for (read, is_soon, counted) in [
            (10, true, None),
            (100, false, None),
            (250, false, Some(250)),
            (750, false, Some(750)),
            // Lies, also several different ones.
            (0, true, Some(750)),
            (740, false, Some(740)),
            (2221, true, Some(740)),
            (1, false, Some(740)),
            (0, false, Some(740)),
            (730, false, Some(730)),
            // It has changed.
            (3, true, Some(730)),
            (9, false, Some(9)),
            (0, true, Some(9)),
            (0, false, Some(0)),
        ] {
            assert_eq!((confirmed.record(read), confirmed.get()), (is_soon, counted.as_ref()));
        }
    }

    #[test]
    fn that_there_is_no_value_must_be_read_twice_too() {
        let mut confirmed = Confirmed::new(None);
        confirmed.record(Some(1));
        confirmed.record(Some(1));
        assert!(confirmed.record(None) && confirmed.get() == Some(&Some(1)));
        assert!(!confirmed.record(None) && confirmed.get() == Some(&None));
    }
}
