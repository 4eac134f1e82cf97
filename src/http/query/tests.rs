use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    amount: u64,
    #[serde(alias = "label")]
    name: Option<String>,
    unit_of: Option<Unit>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Wei,
    Gwei,
    Ether,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Other {
    block: Option<u64>,
}

async fn parse<T: DeserializeOwned>(query: &str) -> Result<T, String> {
    let request = axum::http::Request::builder().uri(format!("/path?{query}")).body(());
    let (mut parts, ()) = request.unwrap().into_parts();
    let parsed = ValidQuery::from_request_parts(&mut parts, &()).await;
    parsed.map(|ValidQuery(value)| value).map_err(|problem| problem.detail.into_owned())
}

fn sample(amount: u64, name: &str) -> Sample {
    Sample { amount, name: Some(name.to_owned()), unit_of: None }
}

#[tokio::test]
async fn names_and_values_are_decoded_and_strange_names_ignored() {
    let valid = parse::<Sample>;
    assert_eq!(valid("amount=7&name=a+b%2b%C3%A4").await, Ok(sample(7, "a b+\u{e4}")));
    assert_eq!(valid("&&=&%6eame=&a%6Dount=007&_=1&_=2&%ff=%ff&utm").await, Ok(sample(7, "")));
    assert_eq!(valid("amount=7&label=x").await, Ok(sample(7, "x")));
    let gwei = Sample { amount: 7, name: None, unit_of: Some(Unit::Gwei) };
    assert_eq!(valid("unitOf=gwei&amount=7").await, Ok(gwei));
    let others = "a=1&".repeat(48);
    assert_eq!(valid(&format!("{others}amount=7&name=x&{others}")).await, Ok(sample(7, "x")));
}

#[tokio::test]
async fn errors_name_the_parameter() {
    for (query, expected) in [
        ("", "`amount` is required"),
        ("amount=1&amount=1", "`amount` must be given once"),
        ("amount=1&name=x&label=x", "`name` must be given once"),
        ("amount=%ff", "`amount` must be UTF-8"),
        ("amount", "`amount` must be a whole number"),
        ("amount=%2B1", "`amount` must be a whole number"),
        ("amount=18446744073709551616", "`amount` must be a whole number"),
        ("amount=1&unitOf=Wei", "`unitOf` must be `wei`, `gwei` or `ether`"),
    ] {
        assert_eq!(parse::<Sample>(query).await.unwrap_err(), expected, "{query}");
    }
}

#[tokio::test]
async fn query_has_a_bounded_number_of_parameters() {
    let others = |separator: &str, count| separator.repeat(count);
    for separator in ["&", "&a", "&%26=%3d", "&a=b"] {
        let query = |count| format!("block=7{}", others(separator, count));
        assert_eq!(parse::<Other>(&query(255)).await.unwrap().block, Some(7));
        let error = Err("a query may have at most 256 parameters".to_owned());
        for count in [256, 4000] {
            assert_eq!(parse::<Other>(&query(count)).await, error);
        }
    }
}
