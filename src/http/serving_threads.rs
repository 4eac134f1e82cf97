//! Threads that serve connections: one single-threaded Tokio runtime each.
//!
//! A connection stays on one thread, so its tasks never wait for a lock of a shared scheduler. Polls and background work
//! run on the runtime that started the server.

use std::cell::Cell;
use std::io;
use std::num::NonZeroUsize;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

thread_local! {
    /// Requests that this thread has received since it last waited for events.
    static REQUESTS: Cell<u32> = const { Cell::new(0) };
}

/// Counts a request that this thread serves.
pub(crate) fn record_request() {
    REQUESTS.set(REQUESTS.get().saturating_add(1));
}

/// Lets other threads of the system run if there were many requests at once. Where there are more busy threads than
/// processors, requests otherwise wait for whole time slices of the system: the 99th percentile is several times as long.
fn give_way_under_load() {
    const MANY: u32 = 8;
    if REQUESTS.take() >= MANY {
        thread::yield_now();
    }
}

/// Running threads. Dropping this ends them and closes their connections.
#[derive(Debug)]
pub(crate) struct ServingThreads {
    runtimes: Vec<Handle>,
    _stop: DropGuard,
}

impl ServingThreads {
    /// Starts `count` threads.
    ///
    /// # Errors
    ///
    /// Fails if the operating system gives no thread or no event queue.
    pub(crate) fn start(count: NonZeroUsize) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let mut runtimes = Vec::new();
        for index in 0..count.get() {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .on_thread_park(give_way_under_load)
                .build()?;
            runtimes.push(runtime.handle().clone());
            let stopped = stop.clone();
            thread::Builder::new()
                .name(format!("serving-{index}"))
                .spawn(move || runtime.block_on(stopped.cancelled()))?;
        }
        Ok(Self { runtimes, _stop: stop.drop_guard() })
    }

    /// The runtimes, one per thread.
    pub(crate) fn runtimes(&self) -> &[Handle] {
        &self.runtimes
    }
}
