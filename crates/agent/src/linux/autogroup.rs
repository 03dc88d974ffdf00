//! The nice value of a session: where the kernel makes autogroups, a thread's own counts only among those of its
//! session.

use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::proc::processes;

/// Processes that the kernel weighs as one, because they are of one session: all of a terminal's, say (sched(7), "The
/// autogroup feature").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Autogroup {
    /// Never used again until the machine starts anew.
    pub name: String,
    /// What all of it weighs beside other sessions.
    pub nice: i32,
}

/// The agent's own, and its session's.
pub const OWN_NICE: i32 = -20;

impl Autogroup {
    /// That of this process. `None` where the kernel makes none, or the process is as old as the first session.
    pub fn own() -> Option<Autogroup> {
        read("self")
    }

    /// Weighs this process's whole session.
    ///
    /// # Errors
    /// If that is not permitted, or there is none.
    pub fn set_own_nice(nice: i32) -> io::Result<()> {
        fs::write(path("self"), nice.to_string())
    }

    /// Gives it its nice value again, through any process in it, where it still has `ours`. Whether there was something
    /// to do: one without processes is gone, and one with another value has got that from somebody else.
    ///
    /// # Errors
    /// If that is not permitted.
    pub fn put_back(&self, ours: i32) -> io::Result<bool> {
        for pid in processes() {
            let pid = pid.to_string();
            match read(&pid) {
                Some(found) if found.name == self.name && found.nice == ours => {
                    return fs::write(path(&pid), self.nice.to_string()).map(|()| true);
                }
                Some(found) if found.name == self.name => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }
}

fn path(pid: &str) -> String {
    format!("/proc/{pid}/autogroup")
}

fn read(pid: &str) -> Option<Autogroup> {
    parse(&fs::read_to_string(path(pid)).ok()?)
}

/// Of `/autogroup-153 nice 0`.
fn parse(text: &str) -> Option<Autogroup> {
    let (name, nice) = text.trim().split_once(" nice ")?;
    Some(Autogroup { name: name.to_owned(), nice: nice.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nice_of_a_session_is_read() {
        let told = Autogroup { name: "/autogroup-153".to_owned(), nice: -20 };
        assert_eq!(parse("/autogroup-153 nice -20\n"), Some(told));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_session_that_is_gone_or_has_another_value_is_left_alone() {
        let gone = Autogroup { name: "/autogroup-none".to_owned(), nice: 0 };
        assert!(!gone.put_back(-20).unwrap());
        if let Some(own) = Autogroup::own() {
            assert!(!own.put_back(own.nice + 1).unwrap());
            assert_eq!(Autogroup::own(), Some(own));
        }
    }
}
