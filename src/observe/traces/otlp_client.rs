//! HTTP client of the span exporter. Logs when exports begin to fail or work again.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

use crate::observe::http_client;
use crate::observe::log_on_change::LogOnChange;

/// Sends from the runtime in which it was created, because the exporter runs on its own thread.
#[derive(Debug)]
pub(crate) struct OtlpHttpClient {
    http: reqwest::Client,
    runtime: Handle,
    outcome_log: LogOnChange,
}

impl OtlpHttpClient {
    /// Time from the start of a request to the end of the response.
    const TIMEOUT: Duration = Duration::from_secs(5);

    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        let http = http_client::direct(Self::TIMEOUT)?;
        Ok(Self { http, runtime: Handle::current(), outcome_log: LogOnChange::default() })
    }
}

#[async_trait]
impl HttpClient for OtlpHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move { http.send_bytes(request).await });
        let outcome = sent.await.map_err(HttpError::from).and_then(|outcome| outcome);
        let result = match &outcome {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(_) => Err("refused"),
            Err(_) => Err("unreachable"),
        };
        if self.outcome_log.changed_to(result) {
            match (result, &outcome) {
                (Ok(()), _) => tracing::info!("span export recovered"),
                (Err(reason), Ok(response)) => {
                    let status = response.status().as_u16();
                    tracing::warn!(reason, status, "spans dropped");
                }
                // The error's text may contain the URL.
                (Err(reason), Err(_)) => tracing::warn!(reason, "spans dropped"),
            }
        }
        outcome
    }
}
