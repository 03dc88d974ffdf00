//! Cgroups as texts, as plain files, and on this machine where it has version 2.

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

#[test]
fn the_outermost_group_has_no_share() {
    let folder = tempfile::tempdir().unwrap();
    let of = |version| Hierarchy { version, mount: folder.path().to_owned(), root: "/".into() };
    let has_share = |version| of(version).has_share(folder.path());
    assert!(has_share(Version::V1) && !has_share(Version::V2));
    for file in ["release_agent", "cpu.weight"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    assert!(!has_share(Version::V1) && has_share(Version::V2));
    fs::write(folder.path().join("cgroup.procs"), "17\n4711\n").unwrap();
    assert_eq!(of(Version::V2).processes(folder.path()).unwrap(), [17, 4_711]);
}

/// A subtree as cgroup v2 lays it out, in plain files: what is written where. Cannot catch: what the kernel says to it.
#[test]
fn a_threaded_subtree_is_written_as_the_kernel_documents() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let hierarchy = Hierarchy { version: Version::V2, mount: home.to_owned(), root: "/".into() };
    let (base, operators) = (home.join("laxity"), home.join("laxity/operators"));
    fs::write(home.join("cgroup.subtree_control"), "memory pids\n").unwrap();
    hierarchy.create(&base).unwrap();
    hierarchy.open(&home.join("")).unwrap();
    hierarchy.create(&operators).unwrap();
    fs::write(operators.join("cpu.max"), "max 100000\n").unwrap();
    let read = |folder: &Path, file: &str| fs::read_to_string(folder.join(file)).unwrap();
    assert_eq!(
        (read(&base, "cgroup.type"), read(&operators, "cgroup.type")),
        ("threaded".into(), "threaded".into())
    );
    assert_eq!(read(home, "cgroup.subtree_control"), "+cpu");
    let set = |weight, quota_cores| hierarchy.set(&operators, GroupSetting { weight, quota_cores }).unwrap();
    set(300, Some(1.5));
    assert_eq!(
        (read(&operators, "cpu.weight"), read(&operators, "cpu.max")),
        ("300".into(), "150000 100000".into())
    );
    set(20_000, None);
    assert_eq!(
        (read(&operators, "cpu.weight"), read(&operators, "cpu.max")),
        ("10000".into(), "max 100000".into())
    );
    hierarchy.move_thread(&operators, 4_711).unwrap();
    assert_eq!(hierarchy.threads(&operators).unwrap(), [4_711]);
    // A controller that is there already is not asked for again.
    fs::write(home.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
    hierarchy.open(home).unwrap();
    assert_eq!(read(home, "cgroup.subtree_control"), "cpu memory\n");
    // Given back by the last agent there.
    hierarchy.close(home).unwrap();
    assert_eq!(read(home, "cgroup.subtree_control"), "cpu memory\n");
    fs::rename(&base, home.join("laxity.slice")).unwrap();
    hierarchy.close(home).unwrap();
    assert_eq!(read(home, "cgroup.subtree_control"), "-cpu");
}

/// On the machine's own cgroup v2, where there is one: threads move. Their weights need the cpu controller there, which
/// a machine that has it in v1 does not offer.
#[test]
fn threads_move_in_a_real_threaded_subtree() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let unified: String =
        mounts.lines().filter(|line| line.contains(" - cgroup2 ")).map(|l| l.to_owned() + "\n").collect();
    let Some(hierarchy) = Hierarchy::parse(&unified) else { return println!("skipped: no cgroup v2 here") };
    let home = hierarchy.mount.join(format!("test-laxity-{}", std::process::id()));
    if fs::create_dir(&home).is_err() {
        return println!("skipped: cgroup v2 cannot be written here");
    }
    let has_cpu = Hierarchy::find().is_some_and(|found| found.version == Version::V2);
    let was_open = has_cpu && hierarchy.is_open(&hierarchy.mount).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id();
    let outcome = (|| {
        write(&home, "cgroup.procs", &pid.to_string())?;
        let (base, operators) = (home.join("laxity"), home.join("laxity/operators"));
        hierarchy.create(&base)?;
        if has_cpu {
            hierarchy.open(&hierarchy.mount)?;
            hierarchy.open(&home)?;
            hierarchy.open(&base)?;
        } else {
            println!("skipped in part: no cpu controller in cgroup v2 here");
        }
        hierarchy.create(&operators)?;
        if has_cpu {
            hierarchy.set(&operators, GroupSetting { weight: 300, quota_cores: Some(0.5) })?;
            assert_eq!(fs::read_to_string(operators.join("cpu.weight"))?, "300\n");
            assert_eq!(fs::read_to_string(operators.join("cpu.max"))?, "50000 100000\n");
        }
        hierarchy.move_thread(&operators, pid)?;
        let moved = (hierarchy.of_thread(pid, pid)?, hierarchy.threads(&operators)?);
        hierarchy.remove(&base, &home)?;
        io::Result::Ok((moved, operators, hierarchy.of_thread(pid, pid)?))
    })();
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_dir(&home).unwrap();
    if has_cpu && !was_open {
        hierarchy.close(&hierarchy.mount).unwrap();
        assert!(!hierarchy.is_open(&hierarchy.mount).unwrap());
    }
    let (moved, operators, back) = outcome.unwrap();
    assert_eq!(moved, (operators, vec![pid]));
    assert_eq!(back, home);
}
