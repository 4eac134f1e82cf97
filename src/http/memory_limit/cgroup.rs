//! Memory limits of cgroups, of versions 1 and 2, where every Linux system mounts them. Others have no such files.

use std::path::{Path, PathBuf};

/// Returns the smallest memory limit of the process's cgroup and its ancestors; `None`: there is none.
pub(super) fn memory_limit() -> Option<usize> {
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    smallest_limit(&cgroups, |path| std::fs::read_to_string(path).ok())
}

/// Returns the smallest limit that `read` finds in the files of these cgroups.
fn smallest_limit(cgroups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<usize> {
    /// Above this, a limit is no limit: version 1 shows none as the largest number of whole pages.
    const UNLIMITED: usize = 1 << 60;
    let files = cgroups.lines().flat_map(limit_files);
    let limits = files.filter_map(|file| read(&file)?.trim().parse::<usize>().ok());
    limits.filter(|limit| *limit < UNLIMITED).min()
}

/// Returns the files with the limits of a cgroup and its ancestors: of `0::/path`, or of `4:memory:/path` in version 1.
fn limit_files(cgroup: &str) -> Vec<PathBuf> {
    let mut fields = cgroup.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (root, file) = if controllers.is_empty() {
        ("/sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|controller| controller == "memory") {
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return Vec::new();
    };
    // In a container the path may be that of the host, or lead out of the root. The root is then the container's cgroup.
    let below = Path::new(path.trim_start_matches('/')).ancestors();
    below
        .filter(|path| !path.starts_with(".."))
        .map(|path| Path::new(root).join(path).join(file))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the smallest limit, where only these files exist.
    fn limit(cgroups: &str, files: &[(&str, &str)]) -> Option<usize> {
        smallest_limit(cgroups, |path| {
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
            ("/sys/fs/memory.max", "1"),
        ];
        assert_eq!(limit("0::/a/b\n", &files), Some(100));
        for root in ["0::/\n", "0::/of-the-host\n", "0::/../../x\n"] {
            assert_eq!(limit(root, &files), Some(300), "{root}");
        }
        let files = [
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912"),
            ("/sys/fs/cgroup/cpu/a/memory.limit_in_bytes", "1"),
        ];
        let cgroups = "9:name=systemd:/x\n4:hugetlb,memory:/a\n1:cpu:/\n0::/\n";
        assert_eq!(limit(cgroups, &files), Some(536_870_912));
    }

    #[test]
    fn absent_and_huge_limits_are_none() {
        let path = "/sys/fs/cgroup/a/memory.max";
        assert_eq!(limit("0::/a\n", &[(path, "max")]), None);
        assert_eq!(limit("0::/a\n", &[]), None);
        assert_eq!(limit("nonsense\n\n", &[(path, "1")]), None);
        let path = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(limit("4:memory:/\n", &[(path, "9223372036854771712")]), None);
    }
}
