//! Limits per client: connections, request rate and long requests.
//!
//! A client is an IPv4 address or an IPv6 /64 network. Its state has a fixed size. It is removed when the client has no
//! connection and no long request, and its rate limit has refilled.
//!
//! A connection holds its client, so a request is charged without a table look-up. Only a request through a trusted
//! proxy looks up its client.

mod rate_limit;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, Request};
use enum_map::{Enum, EnumMap};
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::config::Limits;
use crate::observe::clock;
use rate_limit::{Quota, RateLimit};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// All clients of one listener.
#[derive(Debug)]
pub(crate) struct ClientTable {
    /// Connections per client.
    max_connections: usize,
    quota: Option<Quota>,
    /// Networks whose `X-Forwarded-For` is trusted.
    trusted_proxies: Vec<IpNet>,
    clients: Mutex<HashMap<IpAddr, Arc<Client>>>,
}

#[derive(Debug)]
struct Client {
    /// Address or network.
    key: IpAddr,
    slots: EnumMap<SlotKind, AtomicUsize>,
    rate_limit: Option<RateLimit>,
    /// When a trusted proxy last forwarded a request of the client, or its last slot was released.
    last_active: Mutex<Instant>,
}

/// Kinds of slots: connections, and kinds of long requests. A client has a limited number of each.
#[derive(Debug, Clone, Copy, Enum)]
pub(crate) enum SlotKind {
    Connection,
    /// A forwarded request, which may take minutes.
    Forwarded,
    /// A stream of events.
    Stream,
    /// A call that is in flight at a chain's nodes.
    Read,
}

/// A connection or a long request of a client. Dropping it releases the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    client: Arc<Client>,
    kind: SlotKind,
}

/// The peer of one connection.
#[derive(Debug)]
pub(crate) struct ConnectedPeer {
    table: Arc<ClientTable>,
    address: IpAddr,
    /// `None`: the peer is a trusted proxy, and each request names its client.
    connection: Option<Slot>,
}

/// Handle to one client's rate limit and long requests; `default()` is unlimited. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientHandle(Option<Arc<Client>>);

/// Error: the client has the maximum number of connections, or of long requests of this kind.
#[derive(Debug)]
pub(crate) struct NoFreeSlot;

impl ClientTable {
    /// Creates an empty table.
    pub(crate) fn new(limits: &Limits, trusted_proxies: &[IpNet]) -> Arc<Self> {
        let per_second = NonZeroU32::new(limits.requests_per_second_per_client);
        let burst = NonZeroU32::new(limits.request_burst_per_client);
        Arc::new(Self {
            max_connections: match limits.max_connections_per_client {
                0 => usize::MAX,
                limit => limit,
            },
            quota: per_second.zip(burst).map(|(rate, burst)| Quota::new(rate, burst)),
            trusted_proxies: trusted_proxies.iter().copied().map(canonical_network).collect(),
            clients: Mutex::default(),
        })
    }

    /// Counts a new connection from `address`. A trusted proxy has no limit.
    pub(crate) fn connect(self: &Arc<Self>, address: IpAddr) -> Result<ConnectedPeer, NoFreeSlot> {
        let address = address.to_canonical();
        let connection = if self.is_trusted(address) {
            None
        } else {
            // The table is locked meanwhile, so that the client is not removed as idle.
            let mut clients = self.clients.lock();
            let client = self.get_or_insert(&mut clients, address);
            Some(client.acquire(SlotKind::Connection, self.max_connections)?)
        };
        Ok(ConnectedPeer { table: Arc::clone(self), address, connection })
    }

    /// Removes clients without connections and long requests whose rate limit has refilled.
    pub(crate) fn remove_idle(&self, now: Instant) {
        let refill_time = self.quota.map(Quota::refill_time).unwrap_or_default();
        self.clients.lock().retain(|_, client| {
            let idle_for = now.saturating_duration_since(*client.last_active.lock());
            let is_active = client.slots.values().any(|count| count.load(Ordering::Relaxed) > 0);
            let is_full = client.rate_limit.as_ref().is_none_or(|limit| limit.is_full(now));
            is_active || !is_full || idle_for <= refill_time
        });
    }

    fn get_or_insert(
        &self,
        clients: &mut HashMap<IpAddr, Arc<Client>>,
        address: IpAddr,
    ) -> Arc<Client> {
        let key = client_key(address);
        let client = clients.entry(key).or_insert_with(|| {
            let now = clock::now();
            Arc::new(Client {
                key,
                slots: EnumMap::default(),
                rate_limit: self.quota.map(|quota| RateLimit::new(quota, now)),
                last_active: Mutex::new(now),
            })
        });
        Arc::clone(client)
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(&address))
    }
}

impl Client {
    /// Takes a slot. The client may have `max` of this kind at a time.
    fn acquire(self: Arc<Self>, kind: SlotKind, max: usize) -> Result<Slot, NoFreeSlot> {
        self.slots[kind]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < max).then_some(count.saturating_add(1))
            })
            .map_err(|_| NoFreeSlot)?;
        Ok(Slot { client: self, kind })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.client.last_active.lock() = clock::now();
        self.client.slots[self.kind].fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectedPeer {
    /// Creates a peer without a connection and without limits.
    pub(crate) fn unlimited() -> Self {
        let limits = Limits { requests_per_second_per_client: 0, ..Limits::default() };
        let table = ClientTable::new(&limits, &[]);
        Self { table, address: Ipv4Addr::UNSPECIFIED.into(), connection: None }
    }

    /// Charges the client for one request with these headers, which arrived now. The handler of a costly one charges for
    /// the rest: [`ClientHandle::charge_request`]. Asks whether it `is_costly` only if no unit is left.
    ///
    /// # Errors
    ///
    /// Returns the time after which the request is allowed.
    pub(crate) fn check_rate(
        &self,
        headers: &HeaderMap,
        now: Instant,
        is_costly: impl FnOnce() -> bool,
    ) -> Result<(), Duration> {
        let forwarded;
        let client = match &self.connection {
            Some(connection) => &connection.client,
            None if self.table.quota.is_none() => return Ok(()),
            None => {
                forwarded = self.forwarded_client(headers);
                &forwarded
            }
        };
        let Some(rate_limit) = &client.rate_limit else { return Ok(()) };
        rate_limit.take_first(now).or_else(|wait| {
            if is_costly() { rate_limit.take_first_of_many(now) } else { Err(wait) }
        })
    }

    /// Returns the client's address or network; `None`: the peer is a trusted proxy.
    pub(crate) fn client_key(&self) -> Option<IpAddr> {
        self.connection.as_ref().map(|connection| connection.client.key)
    }

    /// Returns the client whose limits apply to a request with these headers.
    pub(crate) fn client_for(&self, headers: &HeaderMap) -> ClientHandle {
        ClientHandle(Some(match &self.connection {
            Some(connection) => Arc::clone(&connection.client),
            None => self.forwarded_client(headers),
        }))
    }

    fn forwarded_client(&self, headers: &HeaderMap) -> Arc<Client> {
        let address = self.table.forwarded_for(headers).unwrap_or(self.address);
        let mut clients = self.table.clients.lock();
        let client = self.table.get_or_insert(&mut clients, address);
        *client.last_active.lock() = clock::now();
        client
    }
}

impl ClientHandle {
    /// Bytes of a response that are included in its request, and the bytes per further unit.
    const BYTES_PER_UNIT: usize = 64 * 1024;

    /// Returns the client of `request`; unlimited if it did not come over a connection.
    pub(crate) fn from_request<B>(request: &Request<B>) -> Self {
        request.extensions().get().cloned().unwrap_or_default()
    }

    /// Counts a long request of this kind. The client may have `max` at a time; an unlimited one needs no slot.
    pub(crate) fn acquire(&self, kind: SlotKind, max: usize) -> Result<Option<Slot>, NoFreeSlot> {
        self.0.clone().map(|client| client.acquire(kind, max)).transpose()
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

    /// Charges the client for a response of this size: one request for each 64 KiB after the first. Its next requests
    /// wait until that is paid, at most for the time in which the burst refills.
    pub(crate) fn charge_response(&self, bytes: usize) {
        let units = bytes.saturating_sub(1) / Self::BYTES_PER_UNIT;
        if let Some(rate_limit) = self.rate_limit().filter(|_| units > 0) {
            rate_limit.add_debt(u32::try_from(units).unwrap_or(u32::MAX), clock::now());
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
    let address: Option<IpAddr> = match bare.parse() {
        Ok(address) => Some(address),
        Err(_) => text.parse().ok().map(|with_port: SocketAddr| with_port.ip()),
    };
    Some(address?.to_canonical())
}

/// Converts an IPv4 network in IPv6 form (`::ffff:10.0.0.0/104`) to its IPv4 form.
fn canonical_network(network: IpNet) -> IpNet {
    if let IpAddr::V6(address) = network.addr()
        && let Some(address) = address.to_ipv4_mapped()
        && let Some(prefix) = network.prefix_len().checked_sub(96)
        && let Ok(network) = IpNet::new(address.into(), prefix)
    {
        return network;
    }
    network
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
