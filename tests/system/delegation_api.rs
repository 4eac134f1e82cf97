//! Delegation look-ups at the REST API: rate limit, faults, secrets, and the limit that replicas share.

mod budget;
mod fault_list;
mod faults;
mod limits;
mod replicas;
mod secrets;
