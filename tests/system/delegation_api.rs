//! Delegation look-ups at the REST API: rate limit, faults and secrets.

mod budget;
mod fault_list;
mod faults;
mod limits;
mod secrets;
