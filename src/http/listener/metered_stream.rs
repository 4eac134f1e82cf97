//! The stream under hyper, which charges to the memory budget what a connection makes hyper and the system hold.
//!
//! hyper's buffers start with 8 KiB and keep what they have grown to until the connection closes. So each is charged
//! once, at its largest size, when it first grows. A connection with short requests and responses is never charged.
//! Where the budget is exhausted, the read or write fails, which closes the connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::BUFFER_BYTES;
use crate::observe::memory_budget::{MemoryBudget, Reservation};

/// First size of hyper's buffers.
const FIRST_BUFFER_BYTES: usize = 8 * 1024;

/// Largest size of hyper's read buffer beyond what every connection may hold. It grows by at most a half above the
/// limit.
const READ_CHARGE: usize = BUFFER_BYTES / 2 * 3 - FIRST_BUFFER_BYTES;

/// Largest size of hyper's write buffer beyond its first size, and the system's send buffer, which it doubles. A frame
/// may be added to an almost full buffer, whose size is a power of two.
const WRITE_CHARGE: usize = 2 * BUFFER_BYTES - FIRST_BUFFER_BYTES + 2 * super::SEND_BUFFER_BYTES;

/// State of a connection, shared by its task, its stream and the listener.
#[derive(Debug, Default)]
pub(crate) struct ConnectionActivity {
    /// A request has arrived, and its response is not complete, as far as the service knows.
    is_busy: AtomicBool,
    /// Bytes received since the last request arrived.
    received: AtomicUsize,
    is_charged: AtomicBool,
}

impl ConnectionActivity {
    pub(crate) fn start_request(&self) {
        self.is_busy.store(true, Ordering::Relaxed);
        self.received.store(0, Ordering::Relaxed);
    }

    pub(crate) fn end_response(&self) {
        self.is_busy.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Returns true if the connection holds more than every connection may.
    pub(crate) fn is_charged(&self) -> bool {
        self.is_charged.load(Ordering::Relaxed)
    }
}

/// A TCP stream that charges the growth of its connection's buffers.
#[derive(Debug)]
pub(crate) struct MeteredStream {
    stream: TcpStream,
    memory: MemoryBudget,
    activity: Arc<ConnectionActivity>,
    read_charge: Option<Reservation>,
    write_charge: Option<Reservation>,
}

impl MeteredStream {
    pub(crate) fn new(
        stream: TcpStream,
        memory: MemoryBudget,
        activity: Arc<ConnectionActivity>,
    ) -> Self {
        Self { stream, memory, activity, read_charge: None, write_charge: None }
    }

    /// Returns the stream. What was charged is released.
    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }

    fn charge(&self, bytes: usize) -> io::Result<Option<Reservation>> {
        self.activity.is_charged.store(true, Ordering::Relaxed);
        let charged = self.memory.try_charge(bytes);
        charged.map(Some).map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let received = this.activity.received.load(Ordering::Relaxed);
        let free = buffer.remaining();
        // With two times its first size the second half of the buffer grows.
        let grows = received.saturating_add(free) >= 2 * FIRST_BUFFER_BYTES;
        if grows && this.read_charge.is_none() {
            this.read_charge = this.charge(READ_CHARGE)?;
        }
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let read = free.saturating_sub(buffer.remaining());
        this.activity.received.store(received.saturating_add(read), Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if bytes.len() > FIRST_BUFFER_BYTES && this.write_charge.is_none() {
            this.write_charge = this.charge(WRITE_CHARGE)?;
        }
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        // Short unread responses fill the system's buffer too.
        if written.is_pending() && this.write_charge.is_none() {
            this.write_charge = this.charge(WRITE_CHARGE)?;
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
