//! The open connections of a listener, by client, and which of them to close where there are too many.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinSet};

use super::metered_stream::ConnectionActivity;

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    /// The tasks of all connections, also of those that are being closed.
    tasks: JoinSet<()>,
    /// Client of each open connection; `None`: a trusted proxy.
    clients: HashMap<Id, Option<IpAddr>>,
    /// Per client, oldest first.
    by_client: HashMap<IpAddr, Vec<Connection>>,
    /// The number of connections of each client, fewest first.
    by_count: BTreeSet<(usize, IpAddr)>,
}

#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    activity: Arc<ConnectionActivity>,
}

impl OpenConnections {
    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Number of connections that are being closed for others.
    pub(crate) fn closing_count(&self) -> usize {
        self.tasks.len().saturating_sub(self.count())
    }

    /// Spawns the task of a connection of `client`; `None`: of a trusted proxy, which is never closed for another one.
    pub(crate) fn spawn(
        &mut self,
        client: Option<IpAddr>,
        activity: Arc<ConnectionActivity>,
        task: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) -> Id {
        let task = self.tasks.spawn_on(task, runtime);
        let id = task.id();
        self.clients.insert(id, client);
        if let Some(client) = client {
            self.change(client, |connections| connections.push(Connection { task, activity }));
        }
        id
    }

    /// Waits until a task has ended, and removes its connection. Returns its id, or `None` if there is none.
    pub(crate) async fn remove_ended(&mut self) -> Option<Id> {
        let task = match self.tasks.join_next_with_id().await? {
            Ok((task, ())) => task,
            Err(error) => error.id(),
        };
        self.remove(task);
        Some(task)
    }

    fn remove(&mut self, task: Id) {
        if let Some(Some(client)) = self.clients.remove(&task) {
            self.change(client, |connections| {
                connections.retain(|connection| connection.task.id() != task);
            });
        }
    }

    /// Closes a connection to admit one of `newcomer`: the newest idle one of the client with the most, or of the next
    /// ones that have more than the newcomer. If all of these are busy, the newest one of the client with the most.
    /// Returns false if it closed none.
    pub(crate) fn shed_for(&mut self, newcomer: Option<IpAddr>) -> bool {
        /// Number of clients whose connections are searched.
        const MAX_CLIENTS: usize = 64;
        let count = newcomer.and_then(|client| self.by_client.get(&client)).map_or(0, Vec::len);
        let larger = self.by_count.iter().rev().take_while(|(other, _)| *other > count);
        let mut larger =
            larger.filter_map(|(_, client)| self.by_client.get(client)).take(MAX_CLIENTS);
        let Some(largest) = larger.clone().next() else { return false };
        let idle = larger.find_map(|connections| {
            connections.iter().rev().find(|connection| !connection.activity.is_busy())
        });
        let Some(connection) = idle.or_else(|| largest.last()) else { return false };
        connection.task.abort();
        let task = connection.task.id();
        self.remove(task);
        true
    }

    /// Changes the connections of `client`, and its count with them.
    fn change(&mut self, client: IpAddr, change: impl FnOnce(&mut Vec<Connection>)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const LARGE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn open(
        connections: &mut OpenConnections,
        client: Option<IpAddr>,
    ) -> (Id, Arc<ConnectionActivity>) {
        let activity = Arc::new(ConnectionActivity::default());
        let task = std::future::pending();
        let id = connections.spawn(client, Arc::clone(&activity), task, &Handle::current());
        (id, activity)
    }

    #[tokio::test]
    async fn newest_idle_connection_of_the_largest_client_is_closed() {
        let mut connections = OpenConnections::default();
        open(&mut connections, Some(SMALL));
        let (_, first_activity) = open(&mut connections, Some(LARGE));
        let (second, _) = open(&mut connections, Some(LARGE));
        let (third, third_activity) = open(&mut connections, Some(LARGE));
        third_activity.start_request();
        assert!(connections.shed_for(Some(SMALL)));
        assert_eq!(connections.remove_ended().await, Some(second));
        first_activity.start_request();
        assert!(connections.shed_for(Some(SMALL)));
        assert_eq!(connections.remove_ended().await, Some(third));
        assert_eq!(connections.count(), 2);
        // Both have one now.
        assert!(!connections.shed_for(Some(SMALL)));
    }

    #[tokio::test]
    async fn busy_connections_outlive_idle_ones_of_smaller_clients() {
        let mut connections = OpenConnections::default();
        for _ in 0..2 {
            open(&mut connections, Some(LARGE)).1.start_request();
        }
        let (idle, _) = open(&mut connections, Some(SMALL));
        assert!(connections.shed_for(None));
        assert_eq!(connections.remove_ended().await, Some(idle));
        assert!(connections.shed_for(None));
        assert_eq!(connections.count(), 1);
    }

    #[tokio::test]
    async fn client_with_the_most_connections_and_proxies_close_none() {
        let mut connections = OpenConnections::default();
        open(&mut connections, None);
        assert!(!connections.shed_for(Some(SMALL)));
        open(&mut connections, Some(LARGE));
        assert!(!connections.shed_for(Some(LARGE)));
        assert!(connections.shed_for(Some(SMALL)));
        assert_eq!(connections.count(), 1);
        assert!(!connections.shed_for(Some(SMALL)));
    }
}
