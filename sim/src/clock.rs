//! The clock and the randomness of a simulated world, under the service's own code.
//!
//! The standard library reads the time by `clock_gettime` and its random keys by `getrandom`, and the service that of ages in the same way. This program has functions of
//! these names, which the linker prefers to those of the C library. While a world runs, they answer from Tokio's paused
//! clock and from the world's seed. So `Instant::now`, `SystemTime::now` and `RandomState::new` need no change in the
//! service.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use libc::{c_int, c_uint, c_void, clockid_t, size_t, ssize_t, timespec};

/// Monotonic time at the start of a world. Later than that of any machine, so that real waits of idle threads are long.
const MONOTONIC_START: u64 = 1_000_000_000_000_000_000;
/// Time of day at the start of a world: 2026-06-19 12:55 UTC. Hours end in the midst of worlds.
pub const WALL_START: Duration = Duration::from_secs(1_781_873_700);

static RUNS: AtomicBool = AtomicBool::new(false);
/// Nanoseconds since the start of the world.
static NOW: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds by which the clock of the machine is wrong.
static WALL_ERROR: AtomicI64 = AtomicI64::new(0);
/// Nanoseconds in which the machine slept or was paused. Tokio's clock, which is its monotonic one, has not counted them.
static MISSED: AtomicU64 = AtomicU64::new(0);
/// Those of them in which it was paused, so that none of its clocks has counted them.
static PAUSED: AtomicU64 = AtomicU64::new(0);
/// Those of the pauses after which the wall clock was not set yet.
static BEHIND: AtomicU64 = AtomicU64::new(0);
static RANDOM: Mutex<Option<fastrand::Rng>> = Mutex::new(None);

thread_local! {
    static START: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a world with this seed in a runtime of virtual time. There must have been no other one in this process.
pub fn run<T>(seed: u64, world: impl Future<Output = T>) -> T {
    enter(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        start();
        world.await
    })
}

/// Makes this the process of a world with this seed, before it has a runtime.
fn enter(seed: u64) {
    *lock(&RANDOM) = Some(fastrand::Rng::with_seed(seed));
    NOW.store(0, Ordering::Relaxed);
    WALL_ERROR.store(0, Ordering::Relaxed);
    for missed in [&MISSED, &PAUSED, &BEHIND] {
        missed.store(0, Ordering::Relaxed);
    }
    RUNS.store(true, Ordering::Relaxed);
}

/// Ties the clock to that of the runtime, which has just started.
fn start() {
    START.set(Some(tokio::time::Instant::now()));
}

/// Ends the world: the system answers again.
pub fn leave() {
    START.set(None);
    RUNS.store(false, Ordering::Relaxed);
    *lock(&RANDOM) = None;
}

/// True time since the start of the world.
pub fn now() -> Duration {
    Duration::from_nanos(elapsed() + MISSED.load(Ordering::Relaxed))
}

/// Lets the machine sleep.
pub fn sleep(time: Duration) {
    MISSED.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Pauses the machine. Its clocks do not notice it.
pub fn pause(time: Duration) {
    let nanos = time.as_nanos() as u64;
    for missed in [&MISSED, &PAUSED, &BEHIND] {
        missed.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// Sets the wall clock right after a pause of this length.
pub fn end_pause(time: Duration) {
    BEHIND.fetch_sub(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Sets how far the clock of the machine is ahead of the true time.
pub fn set_wall_error(seconds: i64) {
    WALL_ERROR.store(seconds.saturating_mul(1_000_000_000), Ordering::Relaxed);
}

fn elapsed() -> u64 {
    let start = START.get().filter(|_| !READS.replace(true));
    if let Some(start) = start {
        // Tokio may ask the system for the time here.
        let elapsed = tokio::time::Instant::now().saturating_duration_since(start);
        NOW.store(elapsed.as_nanos() as u64, Ordering::Relaxed);
        READS.set(false);
    }
    NOW.load(Ordering::Relaxed)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// # Safety
///
/// As the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if !RUNS.load(Ordering::Relaxed) {
        // SAFETY: the caller's arguments are passed on.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as c_int;
    }
    let nanos = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            let true_time = (WALL_START + now()).as_nanos() as u64;
            let right = true_time - BEHIND.load(Ordering::Relaxed);
            right.saturating_add_signed(WALL_ERROR.load(Ordering::Relaxed))
        }
        libc::CLOCK_BOOTTIME => {
            let slept = MISSED.load(Ordering::Relaxed) - PAUSED.load(Ordering::Relaxed);
            MONOTONIC_START + elapsed() + slept
        }
        _ => MONOTONIC_START + elapsed(),
    };
    let value = timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the caller owns the memory that `time` points to.
    unsafe { time.write(value) };
    0
}

/// # Safety
///
/// As the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    let mut random = lock(&RANDOM);
    let Some(random) = random.as_mut() else {
        // SAFETY: the caller's arguments are passed on.
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) } as ssize_t;
    };
    // SAFETY: the caller owns `length` bytes at `buffer`.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    random.fill(bytes);
    length as ssize_t
}
