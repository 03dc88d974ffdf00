use std::collections::HashSet;
use std::fs;

/// Whether the process listens on one of those TCP ports. `None`: it cannot be seen, for want of permission.
pub fn listens_on(pid: u32, ports: &[u16]) -> Option<bool> {
    let mut inodes = HashSet::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        inodes.extend(listeners(&text, ports));
    }
    if inodes.is_empty() {
        return Some(false);
    }
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let owns = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).any(|target| {
        let target = target.to_string_lossy();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(inode))
    });
    Some(owns)
}

/// Inodes of the sockets that listen on one of those ports, in a table as of `/proc/net/tcp`.
fn listeners(table: &str, ports: &[u16]) -> Vec<String> {
    let listens = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        // 0A is TCP_LISTEN.
        (*state == "0A" && ports.contains(&port)).then(|| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(listens).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:46A1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n\
             1: 0100007F:46A1 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n";
        assert_eq!(listeners(table, &[18_081]), ["4711"]);
        assert!(listeners(table, &[80]).is_empty());
    }

    #[test]
    fn our_own_listener_is_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listens_on(std::process::id(), &[port]), Some(true));
        drop(listener);
        assert_eq!(listens_on(std::process::id(), &[port]), Some(false));
    }
}
