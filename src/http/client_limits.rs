//! Limits per client: connections, request rate and long requests.
//!
//! A client is an IPv4 address or an IPv6 /64 network. Its state has a fixed size. It is removed when the client has no
//! connection and no long request, and its rate limit has refilled.
//!
//! A connection holds its client, so a request is charged without a table look-up. Only a request through a trusted
//! proxy looks up its client.

mod rate_limit;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, Request};
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::config::Limits;
use crate::observe::clock;
use rate_limit::{Quota, RateLimit};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// All clients of one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ClientTable {
    limits: Arc<ClientLimits>,
}

#[derive(Debug)]
struct ClientLimits {
    /// Connections per client; 0: no limit.
    max_connections: usize,
    quota: Option<Quota>,
    /// Networks whose `X-Forwarded-For` is trusted.
    trusted_proxies: Vec<IpNet>,
    table: Mutex<HashMap<IpAddr, Arc<Client>>>,
}

#[derive(Debug)]
struct Client {
    /// Address or network.
    key: IpAddr,
    connections: AtomicUsize,
    /// Forwarded requests in flight.
    forwarded_requests: AtomicUsize,
    streams: AtomicUsize,
    reads: AtomicUsize,
    rate_limit: Option<RateLimit>,
    /// When a trusted proxy last forwarded a request of the client, or its last connection or long request ended.
    last_active: Mutex<Instant>,
}

/// The peer of one connection. Dropping it decrements the client's connection count.
#[derive(Debug)]
pub(crate) struct ConnectedPeer {
    clients: ClientTable,
    address: IpAddr,
    /// `None`: the peer is a trusted proxy, and each request names its client.
    client: Option<Arc<Client>>,
}

/// Handle to one client's rate limit and long requests; `default()` is unlimited. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientHandle(Option<Arc<Client>>);

/// Kinds of long requests, of which a client may have a limited number in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LongRequestKind {
    /// A forwarded request, which may take minutes.
    Forwarded,
    /// A stream of events.
    Stream,
    /// A call that is in flight at a chain's nodes.
    Read,
}

/// Cost of a request, as far as it is known before routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestCost {
    /// It costs one unit.
    One,
    /// Its handler calls [`ClientHandle::charge_request`].
    Varies,
}

/// Permit of one long request. Dropping it releases the client's slot.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit(Option<Arc<Client>>, LongRequestKind);

/// Error: the client has the maximum number of requests of this kind in flight.
#[derive(Debug)]
pub(crate) struct TooManyConcurrentRequests;

/// Error: the client has the maximum number of connections.
#[derive(Debug)]
pub(crate) struct TooManyConnections;

impl ClientTable {
    /// Creates an empty table.
    pub(crate) fn new(limits: &Limits, trusted_proxies: &[IpNet]) -> Self {
        let per_second = NonZeroU32::new(limits.requests_per_second_per_client);
        let burst = NonZeroU32::new(limits.request_burst_per_client);
        let quota = per_second.zip(burst).map(|(rate, burst)| Quota::new(rate, burst));
        Self {
            limits: Arc::new(ClientLimits {
                max_connections: limits.max_connections_per_client,
                quota,
                trusted_proxies: trusted_proxies.iter().copied().map(canonical_network).collect(),
                table: Mutex::default(),
            }),
        }
    }

    /// Counts a new connection from `address`. A trusted proxy has no limit.
    pub(crate) fn connect(&self, address: IpAddr) -> Result<ConnectedPeer, TooManyConnections> {
        let address = address.to_canonical();
        if self.is_trusted(address) {
            return Ok(ConnectedPeer { clients: self.clone(), address, client: None });
        }
        let mut table = self.limits.table.lock();
        let client = self.get_or_insert(&mut table, address);
        let max_connections = self.limits.max_connections;
        if max_connections > 0 && client.connections.load(Ordering::Relaxed) >= max_connections {
            return Err(TooManyConnections);
        }
        client.connections.fetch_add(1, Ordering::Relaxed);
        Ok(ConnectedPeer { clients: self.clone(), address, client: Some(client) })
    }

    /// Removes clients without connections and long requests whose rate limit has refilled.
    pub(crate) fn remove_idle(&self, now: Instant) {
        let refill_time = self.limits.quota.map(Quota::refill_time).unwrap_or_default();
        self.limits.table.lock().retain(|_, client| {
            let idle_for = now.saturating_duration_since(*client.last_active.lock());
            let Client { connections, forwarded_requests, streams, reads, .. } = &**client;
            let counts = [connections, forwarded_requests, streams, reads];
            let is_active = counts.iter().any(|count| count.load(Ordering::Relaxed) > 0);
            let is_full = client.rate_limit.as_ref().is_none_or(|limit| limit.is_full(now));
            is_active || !is_full || idle_for <= refill_time
        });
    }

    fn get_or_insert(
        &self,
        table: &mut HashMap<IpAddr, Arc<Client>>,
        address: IpAddr,
    ) -> Arc<Client> {
        let key = client_key(address);
        let client = table.entry(key).or_insert_with(|| {
            let now = clock::now();
            let rate_limit = self.limits.quota.map(|quota| RateLimit::new(quota, now));
            let last_active = Mutex::new(now);
            let [connections, forwarded_requests, streams, reads] =
                [const { AtomicUsize::new(0) }; 4];
            Arc::new(Client {
                key,
                connections,
                forwarded_requests,
                streams,
                reads,
                rate_limit,
                last_active,
            })
        });
        Arc::clone(client)
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.limits.trusted_proxies.iter().any(|network| network.contains(&address))
    }
}

impl Client {
    fn counter(&self, kind: LongRequestKind) -> &AtomicUsize {
        match kind {
            LongRequestKind::Forwarded => &self.forwarded_requests,
            LongRequestKind::Stream => &self.streams,
            LongRequestKind::Read => &self.reads,
        }
    }

    /// Takes the unit of a request. Asks for its `cost` only if there is none.
    fn check_rate(&self, now: Instant, cost: impl FnOnce() -> RequestCost) -> Result<(), Duration> {
        let Some(rate_limit) = &self.rate_limit else { return Ok(()) };
        rate_limit.take_first(now).or_else(|wait| match cost() {
            RequestCost::One => Err(wait),
            RequestCost::Varies => rate_limit.take_first_of_many(now),
        })
    }
}

impl ConnectedPeer {
    /// Creates a peer without a connection and without limits.
    pub(crate) fn unlimited() -> Self {
        let limits = Limits { requests_per_second_per_client: 0, ..Limits::default() };
        let clients = ClientTable::new(&limits, &[]);
        Self { clients, address: Ipv4Addr::UNSPECIFIED.into(), client: None }
    }

    /// Charges the client for one request with these headers, which arrived now.
    ///
    /// # Errors
    ///
    /// Returns the time after which the request is allowed.
    pub(crate) fn check_rate(
        &self,
        headers: &HeaderMap,
        now: Instant,
        cost: impl FnOnce() -> RequestCost,
    ) -> Result<(), Duration> {
        match &self.client {
            Some(client) => client.check_rate(now, cost),
            None if self.clients.limits.quota.is_none() => Ok(()),
            None => match self.client_for(headers).0 {
                Some(client) => client.check_rate(now, cost),
                None => Ok(()),
            },
        }
    }

    /// Returns the client's address or network; `None`: the peer is a trusted proxy.
    pub(crate) fn client_key(&self) -> Option<IpAddr> {
        self.client.as_ref().map(|_| client_key(self.address))
    }

    /// Returns the client whose limits apply to a request with these headers.
    pub(crate) fn client_for(&self, headers: &HeaderMap) -> ClientHandle {
        if let Some(client) = &self.client {
            return ClientHandle(Some(Arc::clone(client)));
        }
        let address = self.clients.forwarded_for(headers).unwrap_or(self.address);
        let mut table = self.clients.limits.table.lock();
        let client = self.clients.get_or_insert(&mut table, address);
        *client.last_active.lock() = clock::now();
        ClientHandle(Some(client))
    }
}

impl ClientHandle {
    /// Returns the client of `request`; unlimited if it did not come over a connection.
    pub(crate) fn from_request<B>(request: &Request<B>) -> Self {
        request.extensions().get().cloned().unwrap_or_default()
    }

    /// Counts a long request of this kind. The client may have `max` at a time.
    pub(crate) fn acquire(
        &self,
        kind: LongRequestKind,
        max: usize,
    ) -> Result<ConcurrencyPermit, TooManyConcurrentRequests> {
        if let Some(client) = &self.0 {
            let incremented = |count: usize| (count < max).then_some(count.saturating_add(1));
            let ordering = Ordering::Relaxed;
            let counter = client.counter(kind);
            counter
                .fetch_update(ordering, ordering, incremented)
                .map_err(|_| TooManyConcurrentRequests)?;
        }
        Ok(ConcurrencyPermit(self.0.clone(), kind))
    }

    /// Charges the client for a request that costs as many units, one of which was charged before it was routed. A cost
    /// above the burst is the burst.
    ///
    /// # Errors
    ///
    /// Returns the time after which the same request is allowed. Only the first unit is charged then.
    pub(crate) fn charge_request(&self, cost: usize) -> Result<(), Duration> {
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        match self.rate_limit() {
            Some(rate_limit) => rate_limit.take_rest(cost, clock::now()),
            None => Ok(()),
        }
    }

    /// Returns the client's address or network; `None` if the request did not come over a connection.
    pub(crate) fn key(&self) -> Option<IpAddr> {
        self.0.as_ref().map(|client| client.key).filter(|key| !key.is_unspecified())
    }

    fn rate_limit(&self) -> Option<&RateLimit> {
        self.0.as_ref()?.rate_limit.as_ref()
    }
}

impl ClientHandle {
    /// Bytes of a response that are included in its request, and the bytes per further unit.
    const BYTES_PER_UNIT: usize = 64 * 1024;

    /// Charges the client for a response of this size: one request for each 64 KiB after the first. Its next requests
    /// wait until that is paid, at most for the time in which the burst refills.
    pub(crate) fn charge_response(&self, bytes: usize) {
        let units = bytes.saturating_sub(1) / Self::BYTES_PER_UNIT;
        if let Some(rate_limit) = self.rate_limit().filter(|_| units > 0) {
            rate_limit.add_debt(u32::try_from(units).unwrap_or(u32::MAX), clock::now());
        }
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        if let Some(client) = &self.0 {
            *client.last_active.lock() = clock::now();
            client.counter(self.1).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ConnectedPeer {
    fn drop(&mut self) {
        if let Some(client) = &self.client {
            *client.last_active.lock() = clock::now();
            client.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl ClientTable {
    /// Returns the client behind trusted proxies. Each proxy appends the address of its peer, so the list can be
    /// trusted from its right end up to the first address that is not a trusted proxy's. If an entry cannot be parsed,
    /// the proxy to its right counts as the client.
    fn forwarded_for(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let values: Vec<_> = headers.get_all(X_FORWARDED_FOR).iter().collect();
        let mut client = None;
        for value in values.into_iter().rev() {
            let Ok(list) = value.to_str() else { return client };
            for entry in list.rsplit(',') {
                let Some(address) = parse_address(entry.trim()) else { return client };
                client = Some(address);
                if !self.is_trusted(address) {
                    return client;
                }
            }
        }
        client
    }
}

/// Parses an address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    address.or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

/// Converts an IPv4 network in IPv6 form (`::ffff:10.0.0.0/104`) to its IPv4 form.
fn canonical_network(network: IpNet) -> IpNet {
    let mapped = match network.addr() {
        IpAddr::V6(address) => address.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    let prefix = network.prefix_len().checked_sub(96);
    let to_ipv4_network =
        |(address, prefix): (Ipv4Addr, u8)| IpNet::new(address.into(), prefix).ok();
    mapped.zip(prefix).and_then(to_ipv4_network).unwrap_or(network)
}

/// Returns the key of one client: an IPv4 address, or the /64 of an IPv6 address.
fn client_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests;
