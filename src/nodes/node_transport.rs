//! The carrier of requests to nodes: HTTP, or the transport of a simulation.

use std::fmt::Debug;
use std::sync::Arc;

use axum::http::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde::Serialize;

use super::Error;
use super::pooled_client::{PooledClient, Repeat};

/// Carries requests to nodes that are not on the network of the machine.
pub trait NodeTransport: Debug + Send + Sync {
    /// Posts a JSON body to `url`, and returns the response whatever its status is. Dropping the future abandons the call.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unreachable`] without a connection, [`Error::Transport`] if it fails during the call.
    fn post(&self, url: &Url, body: Vec<u8>) -> BoxFuture<'static, Result<Response<Bytes>, Error>>;
}

/// The client that a kind of call uses. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum NodeClient {
    Http(PooledClient),
    Simulated(Arc<dyn NodeTransport>),
}

impl NodeClient {
    /// Posts a body as JSON. Only HTTP sends the `headers`, and may `repeat` the request.
    ///
    /// # Errors
    ///
    /// Fails if there is no response.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &(impl Serialize + ?Sized),
        repeat: Option<Repeat<'_>>,
    ) -> Result<reqwest::Response, Error> {
        match self {
            Self::Http(client) => Ok(client.post(url, headers, body, repeat).await?),
            Self::Simulated(transport) => {
                let body = serde_json::to_vec(body)
                    .map_err(|_| Error::InvalidReply("the call cannot be serialised"))?;
                Ok(transport.post(url, body).await?.into())
            }
        }
    }
}
