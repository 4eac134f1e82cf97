//! The network that a service calls: the system's, or a simulated one.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::nodes::NodeTransport;

/// The network that a service calls. The default is that of the system.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Carries calls to nodes; `None`: HTTP.
    pub nodes: Option<Arc<dyn NodeTransport>>,
    /// Connects to other services than nodes; `None`: TCP.
    pub services: Option<Arc<dyn Dial>>,
}

/// Makes connections.
pub trait Dial: Debug + Send + Sync {
    /// Connects to a host. Dropping the future abandons the attempt.
    ///
    /// # Errors
    ///
    /// Fails if there is no connection.
    fn connect(&self, host: &str, port: u16)
    -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>>;
}

/// A connection.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}
