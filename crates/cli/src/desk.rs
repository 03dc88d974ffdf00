//! Where a run is asked while it goes on, by `laxity add`, `alter`, `cancel` and `checkpoint`: through a socket in its state
//! folder or in that of `--control`, which nobody but its owner can open. What is asked is done by the [`Clerk`].

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod clerk;
mod question;

pub use self::clerk::{Admission, Clerk};
pub use self::question::{Answer, Question, SentFile};

use crate::screen::Screen;

/// Where a run is asked; gone with it.
pub struct Desk {
    socket: PathBuf,
}

/// In the folder.
pub const SOCKET: &str = "ask.socket";

/// How long an answer may take: outputs have two minutes to say where they stand.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// A question is a line, and comes at once. Ten thousand queries are a megabyte or two.
const QUESTION_BYTES_MAX: u64 = 64 << 20;
pub const QUESTION_WITHIN: Duration = Duration::from_secs(5);

impl Desk {
    /// One for each of the folders. Without, the run goes on all the same.
    pub fn open_all(folders: &BTreeSet<PathBuf>, clerk: &Arc<Clerk>, screen: &Screen) -> Vec<Desk> {
        let open = |folder: &PathBuf| {
            Desk::open(folder, clerk.clone())
                .inspect_err(|error| {
                    let folder = folder.display();
                    screen.say(&format!("warning: nobody can ask this run through {folder}: {error}"));
                })
                .ok()
        };
        folders.iter().filter_map(open).collect()
    }

    fn open(folder: &Path, clerk: Arc<Clerk>) -> io::Result<Desk> {
        // The name of a socket is short; a folder's need not be.
        let handle = File::open(folder)?;
        let by_handle = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        if UnixStream::connect(by_handle.join(SOCKET)).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another run is asked there"));
        }
        // It is nobody else's before it can be found.
        let private = by_handle.join(format!(".{SOCKET}-{}", std::process::id()));
        let _of_a_run_that_was_killed = fs::remove_dir_all(&private);
        DirBuilder::new().mode(0o700).create(&private)?;
        let made = private.join("s");
        let listener = UnixListener::bind(&made)?;
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        fs::rename(&made, by_handle.join(SOCKET))?;
        fs::remove_dir(&private)?;
        let answer = move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = answer(&stream, &clerk) {
                    tracing::debug!(%error, "a question was not answered");
                }
            }
        };
        std::thread::Builder::new().name("laxity-desk".into()).spawn(answer)?;
        Ok(Desk { socket: folder.join(SOCKET) })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _nobody_asks_any_more = fs::remove_file(&self.socket);
    }
}

fn answer(stream: &UnixStream, clerk: &Clerk) -> io::Result<()> {
    stream.set_read_timeout(Some(QUESTION_WITHIN))?;
    let mut line = String::new();
    BufReader::new(io::Read::take(stream, QUESTION_BYTES_MAX)).read_line(&mut line)?;
    let answers = match serde_json::from_str(&line) {
        Ok(question) => clerk.answer(question),
        Err(_) if line.len() as u64 == QUESTION_BYTES_MAX => {
            vec![Answer::Refused(format!("more than {} MB of SQL at once", QUESTION_BYTES_MAX >> 20))]
        }
        Err(error) => {
            vec![Answer::Refused(format!(
                "the run is another version of laxity, and does not know that: {error}"
            ))]
        }
    };
    let mut text = String::new();
    for answer in answers {
        text.push_str(&serde_json::to_string(&answer)?);
        text.push('\n');
    }
    let mut stream = stream;
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use laxity_engine::{Engine, EngineConfig};

    use super::*;
    use crate::args::{CheckpointArgs, Cli, Command};
    use crate::ask;

    #[test]
    fn the_socket_is_the_owners_alone_wherever_the_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(120)).join("y".repeat(60));
        fs::create_dir_all(&deep).unwrap();
        let engine = Arc::new(Engine::new(EngineConfig::default()));
        let Command::Run(args) = Cli::parse_from(["laxity", "run", "x.sql"]).command else { unreachable!() };
        let admission = Admission { args, mirror: None, pace: None, processing_origin_ms: 0 };
        let clerk = Arc::new(Clerk::new(Arc::downgrade(&engine), admission));
        let desk = Desk::open(&deep, clerk.clone()).unwrap();
        assert!(Desk::open(&deep, clerk.clone()).is_err(), "there is one already");
        let mode = fs::metadata(deep.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let args = CheckpointArgs { folder: deep.clone(), query: None };
        let said =
            |args: &CheckpointArgs| ask::checkpoint(args).map_err(|failure| failure.text()).unwrap_err();
        assert!(said(&args).contains("no query with checkpoints"));
        clerk.close();
        assert!(said(&args).contains("the run is about to end"));
        drop(desk);
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 0);
    }
}
