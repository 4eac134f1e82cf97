use super::*;

#[test]
fn amounts_within_a_quarter_are_near() {
    for (one, other, expected) in
        [(100, 100, true), (75, 100, true), (74, 100, false), (0, 0, true), (0, 1, false)]
    {
        assert_eq!(is_near(one, other), expected, "{one} {other}");
        assert_eq!(is_near(other, one), expected, "{other} {one}");
    }
}
