//! The memory limit of the process, and what follows from it.
//!
//! The limit is shared out once, at the start: a part for the process itself, one for the connections, and one, the
//! [`MemoryBudget`](crate::observe::memory_budget::MemoryBudget), for every byte above that which clients make the service hold.

use std::path::{Path, PathBuf};

use crate::config::MemoryLimit;

const MIB: usize = 1024 * 1024;

/// The shares of the memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryShares {
    /// Bytes that requests, responses, buffers above a connection's base, and caches may hold together.
    pub(crate) budget: usize,
    /// Connections whose base fits.
    pub(crate) max_connections: usize,
}

impl MemoryShares {
    /// Limit where none is configured and no cgroup has one.
    const DEFAULT_LIMIT: usize = 1024 * MIB;

    /// Program, threads, metrics, clients of upstreams, log, and the largest bodies that are being made.
    const PROCESS_BYTES: usize = 32 * MIB;

    /// HTTP clients, counters and snapshots of a chain.
    const CHAIN_BYTES: usize = MIB / 4;

    /// Bytes that every connection may hold without a charge to the budget: its task and two buffers of their first
    /// size, 21 KiB where all of it is in use, the uncharged first bytes of two bodies, and the system's structures of a
    /// socket.
    const CONNECTION_BYTES: usize = 26 * 1024;

    /// Shares out `limit` bytes between the process, this many chains that keep these bytes besides, connections and the
    /// budget.
    pub(crate) fn new(limit: usize, chains: usize, kept_bytes: usize) -> Self {
        let chain_bytes = chains.saturating_mul(Self::CHAIN_BYTES).saturating_add(kept_bytes);
        // An eighth for what the allocator holds and cannot use.
        let reserved = (limit / 8).saturating_add(Self::PROCESS_BYTES).saturating_add(chain_bytes);
        // Many chains may leave nothing. The service then still has to serve, so they count for half of the rest at most.
        let floor = (limit / 8 * 7).saturating_sub(Self::PROCESS_BYTES) / 2;
        let available = limit.saturating_sub(reserved);
        if available < floor {
            tracing::warn!(
                limit,
                chain_bytes,
                "the histories of the chains may exceed the memory limit"
            );
        }
        let available = available.max(floor);
        Self { budget: available / 2, max_connections: available / 2 / Self::CONNECTION_BYTES }
    }
}

impl MemoryLimit {
    /// Returns the limit in bytes: the configured one, the cgroup's, or a default.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Auto => {
                let limit = cgroup_limit().unwrap_or(MemoryShares::DEFAULT_LIMIT);
                if limit < Self::MIN_BYTES {
                    let needed = Self::MIN_BYTES;
                    tracing::warn!(
                        limit,
                        needed,
                        "the memory limit is too low; clients can exhaust it"
                    );
                }
                limit.max(Self::MIN_BYTES)
            }
        }
    }
}

/// Returns the smallest memory limit of the process's cgroup and its ancestors; `None`: there is none.
#[cfg(target_os = "linux")]
fn cgroup_limit() -> Option<usize> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let cgroups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    smallest_limit(&cgroups, &mounts, read)
}

#[cfg(not(target_os = "linux"))]
fn cgroup_limit() -> Option<usize> {
    None
}

/// Returns the smallest limit that `read` finds in the files for the cgroups of `/proc/self/cgroup` in the mounts of
/// `/proc/self/mountinfo`.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has cgroups"))]
fn smallest_limit(
    cgroups: &str,
    mounts: &str,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<usize> {
    /// Above this, a limit is no limit: version 1 shows none as the largest number of whole pages.
    const UNLIMITED: usize = 1 << 60;
    let mounts = mounts.lines().filter_map(MemoryMount::parse);
    let files = mounts.flat_map(|mount| mount.limit_files(cgroups));
    let limits = files.filter_map(|file| read(&file)?.trim().parse::<usize>().ok());
    limits.filter(|limit| *limit < UNLIMITED).min()
}

/// A mounted hierarchy of cgroups with limits of memory.
struct MemoryMount<'a> {
    is_version_2: bool,
    /// The cgroup that is seen at `mount_point`.
    root: &'a Path,
    mount_point: &'a Path,
}

impl<'a> MemoryMount<'a> {
    /// Parses a line of `/proc/self/mountinfo`; `None`: another mount.
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, mount_point) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let is_version_2 = match file_system.next()? {
            "cgroup2" => true,
            "cgroup" if file_system.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        Some(Self { is_version_2, root: Path::new(root), mount_point: Path::new(mount_point) })
    }

    /// Returns the files with the limits of the process's cgroup and its ancestors, as far as the mount shows them.
    fn limit_files(&self, cgroups: &str) -> Vec<PathBuf> {
        let path = cgroups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let is_this = if self.is_version_2 {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|controller| controller == "memory")
            };
            is_this.then(|| Path::new(path))
        });
        // In a container the path may be that of the host, or not lie below the root. The mount point itself is then
        // the container's cgroup.
        let below = path.and_then(|path| path.strip_prefix(self.root).ok());
        let below = below.filter(|below| below.iter().all(|part| part != ".."));
        let file = if self.is_version_2 { "memory.max" } else { "memory.limit_in_bytes" };
        below
            .unwrap_or(Path::new(""))
            .ancestors()
            .map(|ancestor| self.mount_point.join(ancestor).join(file))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
    const VERSION_2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    /// Returns the smallest limit, where only these files exist.
    fn limit(cgroups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<usize> {
        smallest_limit(cgroups, mounts, |path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| format!("{text}\n"))
        })
    }

    #[test]
    fn smallest_limit_of_the_cgroup_and_its_ancestors_applies() {
        let files = [
            ("/sys/fs/cgroup/memory.max", "300"),
            ("/sys/fs/cgroup/a/memory.max", "100"),
            ("/sys/fs/cgroup/a/b/memory.max", "200"),
            ("/sys/fs/cgroup/other/memory.max", "1"),
        ];
        assert_eq!(limit("0::/a/b\n", VERSION_2, &files), Some(100));
        assert_eq!(limit("0::/\n", VERSION_2, &files), Some(300));
        let files = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912"),
            ("/sys/fs/cgroup/cpu/a/memory.limit_in_bytes", "1"),
        ];
        let cgroups = "9:name=systemd:/x\n4:hugetlb,memory:/a\n1:cpu:/\n0::/\n";
        assert_eq!(limit(cgroups, VERSION_1, &files), Some(536_870_912));
    }

    #[test]
    fn absent_and_huge_limits_are_none() {
        let path = "/sys/fs/cgroup/a/memory.max";
        assert_eq!(limit("0::/a\n", VERSION_2, &[(path, "max")]), None);
        assert_eq!(limit("0::/a\n", VERSION_2, &[]), None);
        assert_eq!(limit("", "", &[]), None);
        assert_eq!(limit("0::/a\n", "nonsense\n1 2 3 - cgroup2\n", &[(path, "1")]), None);
        let path = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(limit("4:memory:/\n", VERSION_1, &[(path, "9223372036854771712")]), None);
    }

    #[test]
    fn mount_point_of_a_container_holds_its_limit() {
        let container = VERSION_1.replace(" / ", " /docker/7f ");
        let files = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7")];
        assert_eq!(limit("4:memory:/docker/7f\n", &container, &files), Some(7));
        assert_eq!(limit("4:memory:/\n", &container, &files), Some(7));
        let files = [("/sys/fs/cgroup/memory.max", "7"), ("/sys/fs/memory.max", "1")];
        assert_eq!(limit("0::/../../x\n", VERSION_2, &files), Some(7));
        assert_eq!(limit("", VERSION_2, &files), Some(7));
    }

    #[test]
    fn shares_fit_into_the_limit() {
        for limit in [64 * MIB, 512 * MIB, 1024 * MIB, 64 * 1024 * MIB] {
            let MemoryShares { budget, max_connections } = MemoryShares::new(limit, 0, 0);
            let used = budget + max_connections * MemoryShares::CONNECTION_BYTES;
            assert!(used + MemoryShares::PROCESS_BYTES + limit / 8 <= limit, "{limit}");
            assert!(used > limit / 3, "{limit}");
        }
    }

    #[test]
    fn kept_bytes_reduce_the_shares_by_half_at_most() {
        let budget = |kept| MemoryShares::new(512 * MIB, 1, kept).budget;
        assert!(budget(0) - budget(7 * MIB) >= 7 * MIB / 2 - 1);
        assert_eq!(budget(4096 * MIB), (512 / 8 * 7 - 32) * MIB / 4);
    }
}
