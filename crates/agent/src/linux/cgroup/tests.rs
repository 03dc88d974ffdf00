use super::*;

const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
33 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

const UNIFIED: &str =
    "29 22 0:26 /machine/a /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn the_cpu_controller_is_found_in_either_layout() {
    let hybrid = Hierarchy::parse(HYBRID).unwrap();
    assert_eq!((hybrid.version, hybrid.mount.to_str()), (Version::V1, Some("/sys/fs/cgroup/cpu,cpuacct")));
    let unified = Hierarchy::parse(UNIFIED).unwrap();
    assert_eq!((unified.version, unified.mount.to_str()), (Version::V2, Some("/sys/fs/cgroup")));
    assert_eq!(Hierarchy::parse("1 1 0:1 / / rw - ext4 /dev/sda rw"), None);
}

#[test]
fn membership_is_read_of_the_right_hierarchy() {
    let text = "9:name=systemd:/x\n4:cpu,cpuacct:/docker/b\n0::/machine/a/c\n";
    let folder = |mounts| Hierarchy::parse(mounts).unwrap().folder_in(text).unwrap();
    assert_eq!(folder(HYBRID), Path::new("/sys/fs/cgroup/cpu,cpuacct/docker/b"));
    assert_eq!(folder(UNIFIED), Path::new("/sys/fs/cgroup/c"));
    let root = Hierarchy::parse(HYBRID).unwrap().folder_in("4:cpu:/\n");
    assert_eq!(root.unwrap(), Path::new("/sys/fs/cgroup/cpu,cpuacct"));
}

#[test]
fn a_usual_share_is_usual_in_both() {
    assert_eq!([1, 100, 1_000, 10_000].map(shares), [10, 1_024, 10_240, 102_400]);
    assert_eq!(shares(0), 2);
}
