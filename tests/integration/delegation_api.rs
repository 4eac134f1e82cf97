//! Delegation look-ups at the REST API: requests, keys and responses.

mod fault_list;
mod faults;
mod keys;
mod limits;
mod parameters;
mod responses;
mod secrets;
mod sources;

use crate::http_message::Message;

/// Asserts that the request was refused with the name of the parameter. Returns the detail of the problem, which has to be
/// shorter than `limit`.
fn refusal(response: &Message, name: &str, request: &str, limit: usize) -> String {
    let request = &request[..request.len().min(300)];
    assert_eq!(response.outcome(), (400, "invalid_parameter".into()), "{request}: {response:#?}");
    let detail = response.problem()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(&format!("`{name}`")), "{name} in {request}: {detail}");
    assert!(detail.len() < limit, "{request}: {detail}");
    assert!(!response.has_header("x-delegation-source"), "{request}");
    detail
}
