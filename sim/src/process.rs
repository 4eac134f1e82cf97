//! Each world has a process of its own, a copy of this one. So each begins with the same memory, also that of static
//! variables, and one that crashes or hangs ends no other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock;
use crate::plan::Plan;
use crate::promises::Violation;
use crate::world::{self, Outcome};

/// Processor time of a world. A poll that never ends would take it.
const MAX_SECONDS: u64 = 120;

/// Runs a world of no time, so that those that follow need not prepare again what a process prepares once.
pub fn prepare() {
    let plan = Plan { end: Duration::ZERO, ..Plan::new(0).with(Vec::new()) };
    run_in_thread(plan, false);
    clock::leave();
}

/// Runs a world in a thread of its own, which has random keys of its own.
fn run_in_thread(plan: Plan, keeps_lines: bool) -> Outcome {
    let thread = std::thread::spawn(move || world::run(plan, keeps_lines));
    thread.join().expect("a world ends")
}

/// Runs the world of a plan.
pub fn run(plan: &Plan, keeps_lines: bool) -> Outcome {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for both ends.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0, "no pipe");
    let [reader, writer] = ends;
    // SAFETY: this process has one thread now.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process");
    // SAFETY: each end is used by one file.
    let (mut reader, mut writer) =
        unsafe { (File::from_raw_fd(reader), File::from_raw_fd(writer)) };
    if child == 0 {
        drop(reader);
        let limit = libc::rlimit { rlim_cur: MAX_SECONDS, rlim_max: MAX_SECONDS };
        // SAFETY: the limit is a valid structure.
        unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) };
        let outcome = run_in_thread(plan.clone(), keeps_lines);
        let is_sent = writer.write_all(to_json(&outcome).to_string().as_bytes()).is_ok();
        // SAFETY: nothing has to run at the end of this process.
        unsafe { libc::_exit(i32::from(!is_sent)) };
    }
    drop(writer);
    let mut sent = Vec::new();
    let is_read = reader.read_to_end(&mut sent).is_ok();
    let mut status = 0;
    // SAFETY: `status` has room for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    let outcome = Some(sent).filter(|_| is_read && status == 0);
    let outcome = outcome.and_then(|sent| from_json(&serde_json::from_slice(&sent).ok()?));
    outcome.unwrap_or_else(|| Outcome {
        violations: vec![Violation {
            at: Duration::ZERO,
            promise: "a world ends".into(),
            text: format!("its process ended with status {status:#x}"),
        }],
        trace: 0,
        lines: Vec::new(),
        simulated: Duration::ZERO,
        calls: 0,
        responses: 0,
        checked: BTreeMap::new(),
    })
}

fn to_json(outcome: &Outcome) -> Value {
    let violations: Vec<_> =
        outcome.violations.iter().map(|it| json!([nanos(it.at), it.promise, it.text])).collect();
    json!([
        violations,
        outcome.trace,
        outcome.lines,
        nanos(outcome.simulated),
        outcome.calls,
        outcome.responses,
        outcome.checked,
    ])
}

fn from_json(json: &Value) -> Option<Outcome> {
    let violation = |it: &Value| {
        Some(Violation {
            at: Duration::from_nanos(it[0].as_u64()?),
            promise: it[1].as_str()?.to_owned(),
            text: it[2].as_str()?.to_owned(),
        })
    };
    Some(Outcome {
        violations: json[0].as_array()?.iter().map(violation).collect::<Option<_>>()?,
        trace: json[1].as_u64()?,
        lines: serde_json::from_value(json[2].clone()).ok()?,
        simulated: Duration::from_nanos(json[3].as_u64()?),
        calls: json[4].as_u64()?,
        responses: json[5].as_u64()?,
        checked: serde_json::from_value(json[6].clone()).ok()?,
    })
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
