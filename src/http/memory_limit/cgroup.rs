//! Memory limits of cgroups, of versions 1 and 2.

use std::path::{Path, PathBuf};

use procfs_core::process::{MountInfo, MountInfos};
use procfs_core::{FromRead as _, ProcessCGroup, ProcessCGroups};

/// Returns the smallest memory limit of the process's cgroup and its ancestors; `None`: there is none.
pub(super) fn memory_limit() -> Option<usize> {
    let cgroups = ProcessCGroups::from_file("/proc/self/cgroup").ok()?;
    let mounts = MountInfos::from_file("/proc/self/mountinfo").ok()?;
    smallest_limit(&cgroups, &mounts, |path| std::fs::read_to_string(path).ok())
}

/// Returns the smallest limit that `read` finds in the files of these cgroups in these mounts.
fn smallest_limit(
    cgroups: &ProcessCGroups,
    mounts: &MountInfos,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<usize> {
    /// Above this, a limit is no limit: version 1 shows none as the largest number of whole pages.
    const UNLIMITED: usize = 1 << 60;
    let files = mounts.iter().flat_map(|mount| limit_files(mount, cgroups));
    let limits = files.filter_map(|file| read(&file)?.trim().parse::<usize>().ok());
    limits.filter(|limit| *limit < UNLIMITED).min()
}

/// Returns the files with the limits of the process's cgroup and its ancestors, as far as the mount shows them.
fn limit_files(mount: &MountInfo, cgroups: &ProcessCGroups) -> Vec<PathBuf> {
    let (file, is_limited): (_, fn(&ProcessCGroup) -> bool) = match mount.fs_type.as_str() {
        "cgroup2" => ("memory.max", |cgroup| cgroup.controllers.is_empty()),
        "cgroup" if mount.super_options.contains_key("memory") => {
            ("memory.limit_in_bytes", |cgroup| {
                cgroup.controllers.iter().any(|controller| controller == "memory")
            })
        }
        _ => return Vec::new(),
    };
    let cgroup = cgroups.0.iter().find(|cgroup| is_limited(cgroup));
    // In a container the path may be that of the host, or not lie below the root. The mount point itself is then the
    // container's cgroup.
    let below = cgroup
        .and_then(|cgroup| Path::new(&cgroup.pathname).strip_prefix(&mount.root).ok())
        .filter(|below| below.iter().all(|part| part != ".."))
        .unwrap_or(Path::new(""));
    below.ancestors().map(|ancestor| mount.mount_point.join(ancestor).join(file)).collect()
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
        let cgroups = ProcessCGroups::from_read(cgroups.as_bytes()).unwrap();
        let mounts = MountInfos::from_read(mounts.as_bytes()).ok()?;
        smallest_limit(&cgroups, &mounts, |path| {
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
}
