//! The open connections of a listener, by client, and which of them to close where there are too many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::task::{AbortHandle, Id};

use super::metered_stream::ConnectionActivity;

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    /// Per client, oldest first.
    by_client: HashMap<IpAddr, BTreeMap<u64, Connection>>,
    /// The number of connections of each client, fewest first.
    by_count: BTreeSet<(usize, IpAddr)>,
    /// Client and sequence number of each task; `None`: of a trusted proxy.
    by_task: HashMap<Id, Option<(IpAddr, u64)>>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    activity: Arc<ConnectionActivity>,
}

impl OpenConnections {
    pub(crate) fn count(&self) -> usize {
        self.by_task.len()
    }

    /// Adds a connection of `client`; `None`: of a trusted proxy, which is never closed for another one.
    pub(crate) fn insert(
        &mut self,
        client: Option<IpAddr>,
        task: AbortHandle,
        activity: Arc<ConnectionActivity>,
    ) {
        let sequence = self.next_sequence;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.by_task.insert(task.id(), client.map(|client| (client, sequence)));
        if let Some(client) = client {
            self.change(client, |connections| {
                connections.insert(sequence, Connection { task, activity });
            });
        }
    }

    /// Removes the connection of a task that has ended.
    pub(crate) fn remove(&mut self, task: Id) {
        if let Some(Some((client, sequence))) = self.by_task.remove(&task) {
            self.change(client, |connections| _ = connections.remove(&sequence));
        }
    }

    /// Closes a connection to admit one of `newcomer`: the newest idle one of the client with the most, or of the next
    /// ones that have more than the newcomer. If all of these are busy, the newest one of the client with the most.
    /// Returns false if it closed none.
    pub(crate) fn shed_for(&mut self, newcomer: Option<IpAddr>) -> bool {
        /// Number of clients whose connections are searched.
        const MAX_CLIENTS: usize = 64;
        let count =
            newcomer.and_then(|client| self.by_client.get(&client)).map_or(0, BTreeMap::len);
        let larger = self.by_count.iter().rev().take_while(|(other, _)| *other > count);
        let mut larger =
            larger.filter_map(|(_, client)| self.by_client.get(client)).take(MAX_CLIENTS);
        let Some(largest) = larger.clone().next() else { return false };
        let idle = larger.find_map(newest_idle);
        let Some(connection) = idle.or_else(|| largest.values().next_back()) else { return false };
        connection.task.abort();
        let task = connection.task.id();
        self.remove(task);
        true
    }

    /// Changes the connections of `client`, and its count with them.
    fn change(&mut self, client: IpAddr, change: impl FnOnce(&mut BTreeMap<u64, Connection>)) {
        let connections = self.by_client.entry(client).or_default();
        self.by_count.remove(&(connections.len(), client));
        change(connections);
        if connections.is_empty() {
            self.by_client.remove(&client);
        } else {
            self.by_count.insert((connections.len(), client));
        }
    }
}

fn newest_idle(connections: &BTreeMap<u64, Connection>) -> Option<&Connection> {
    connections.values().rev().find(|connection| !connection.activity.is_busy())
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    const SMALL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const LARGE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    struct Harness {
        connections: OpenConnections,
        tasks: JoinSet<()>,
    }

    impl Harness {
        fn open(&mut self, client: Option<IpAddr>) -> (Id, Arc<ConnectionActivity>) {
            let activity = Arc::new(ConnectionActivity::default());
            let task = self.tasks.spawn(std::future::pending());
            let id = task.id();
            self.connections.insert(client, task, Arc::clone(&activity));
            (id, activity)
        }

        async fn aborted(&mut self) -> Id {
            self.tasks.join_next_with_id().await.unwrap().unwrap_err().id()
        }
    }

    fn harness() -> Harness {
        Harness { connections: OpenConnections::default(), tasks: JoinSet::new() }
    }

    #[tokio::test]
    async fn newest_idle_connection_of_the_largest_client_is_closed() {
        let mut harness = harness();
        harness.open(Some(SMALL));
        let (first, first_activity) = harness.open(Some(LARGE));
        let (second, _) = harness.open(Some(LARGE));
        let (third, third_activity) = harness.open(Some(LARGE));
        third_activity.start_request();
        assert!(harness.connections.shed_for(Some(SMALL)));
        assert_eq!(harness.aborted().await, second);
        first_activity.start_request();
        assert!(harness.connections.shed_for(Some(SMALL)));
        assert_eq!(harness.aborted().await, third);
        assert_eq!(harness.connections.count(), 2);
        // Both have one now.
        assert!(!harness.connections.shed_for(Some(SMALL)));
        harness.connections.remove(first);
        assert_eq!(harness.connections.count(), 1);
    }

    #[tokio::test]
    async fn busy_connections_outlive_idle_ones_of_smaller_clients() {
        let mut harness = harness();
        for _ in 0..2 {
            harness.open(Some(LARGE)).1.start_request();
        }
        let (idle, _) = harness.open(Some(SMALL));
        assert!(harness.connections.shed_for(None));
        assert_eq!(harness.aborted().await, idle);
        assert!(harness.connections.shed_for(None));
        assert_eq!(harness.connections.count(), 1);
    }

    #[tokio::test]
    async fn client_with_the_most_connections_and_proxies_close_none() {
        let mut harness = harness();
        harness.open(None);
        assert!(!harness.connections.shed_for(Some(SMALL)));
        harness.open(Some(LARGE));
        assert!(!harness.connections.shed_for(Some(LARGE)));
        assert!(harness.connections.shed_for(Some(SMALL)));
        assert_eq!(harness.connections.count(), 1);
        assert!(!harness.connections.shed_for(Some(SMALL)));
    }
}
