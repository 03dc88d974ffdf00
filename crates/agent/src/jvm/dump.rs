/// A thread as a dump shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaThread {
    /// The name that the program gave it.
    pub name: String,
    /// Its id in Linux.
    pub tid: u32,
}

/// The platform threads in a dump, as `jstack` prints it: `"NAME" #66 … nid=0x79e0 …`. The native id is hexadecimal up
/// to JDK 20 and decimal from JDK 21 on.
pub fn parse(dump: &str) -> Vec<JavaThread> {
    dump.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<JavaThread> {
    // A name may hold quotes, the rest of the line does not.
    let (name, rest) = line.strip_prefix('"')?.rsplit_once('"')?;
    let nid = rest.split_ascii_whitespace().find_map(|field| field.strip_prefix("nid="))?;
    let tid = match nid.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => nid.parse().ok()?,
    };
    Some(JavaThread { name: name.to_owned(), tid })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, name: &str, tid: u32) {
        assert_eq!(parse(line), [JavaThread { name: name.to_owned(), tid }]);
    }

    #[test]
    fn both_notations_of_the_native_id() {
        check(
            "\"snk[8]: Writer (1/1)#0\" #66 prio=5 os_prio=0 cpu=325.43ms elapsed=131.72s tid=0x00007f nid=0x79e0 runnable",
            "snk[8]: Writer (1/1)#0",
            0x79e0,
        );
        check(
            "\"main\" #3 [20178] prio=5 os_prio=0 cpu=40.01ms tid=0x0000ff nid=20178 waiting",
            "main",
            20_178,
        );
        check(
            "\"VM Thread\" os_prio=0 cpu=74.41ms elapsed=57.62s tid=0x00007f nid=0x4d5 runnable  ",
            "VM Thread",
            0x4d5,
        );
        check("\"a \"b\" (1/1)#0\" #5 nid=0x10 runnable", "a \"b\" (1/1)#0", 16);
    }

    #[test]
    fn what_is_no_thread_is_passed_over() {
        assert_eq!(
            parse(
                "Full thread dump OpenJDK\n\n   java.lang.Thread.State: RUNNABLE\n\"virtual\" #9 virtual\n"
            ),
            []
        );
    }
}
