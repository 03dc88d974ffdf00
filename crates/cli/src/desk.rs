//! `laxity checkpoint FOLDER`: asks the run that works with a state folder to save what its queries hold, now. It is asked
//! through a socket in that folder, which nobody but its owner can open.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use laxity_engine::Engine;
use serde::{Deserialize, Serialize};

use crate::args::CheckpointArgs;
use crate::failure::Failure;
use crate::quantity::{short_bytes, short_duration};
use crate::screen::Screen;

/// Where a run is asked; gone with it.
pub struct Desk {
    socket: PathBuf,
}

/// What is asked, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    /// `None`: all that have checkpoints.
    checkpoint_of: Option<String>,
}

/// A line of JSON for each query.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    query: String,
    number: u64,
    bytes: u64,
    written_bytes: u64,
    longest_pause_ns: u64,
    /// Why there is none.
    error: Option<String>,
}

const SOCKET: &str = "ask.socket";

/// How long a checkpoint may take: outputs have two minutes to say where they stand.
const PATIENCE: Duration = Duration::from_secs(150);

/// A question is a line, and comes at once.
const QUESTION_BYTES_MAX: u64 = 4_096;
const QUESTION_WITHIN: Duration = Duration::from_secs(5);

impl Desk {
    /// One for each of the folders. Without, the run goes on all the same.
    pub fn open_all(folders: &BTreeSet<PathBuf>, engine: &Arc<Engine>, screen: &Screen) -> Vec<Desk> {
        let open = |folder: &PathBuf| {
            Desk::open(folder, Arc::downgrade(engine))
                .inspect_err(|error| {
                    let folder = folder.display();
                    screen.say(&format!("warning: 'laxity checkpoint {folder}' will not work: {error}"));
                })
                .ok()
        };
        folders.iter().filter_map(open).collect()
    }

    fn open(folder: &Path, engine: Weak<Engine>) -> io::Result<Desk> {
        // The name of a socket is short; a folder's need not be.
        let handle = File::open(folder)?;
        let by_handle = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
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
                let Some(engine) = engine.upgrade() else { return };
                if let Err(error) = answer(&stream, &engine) {
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

fn answer(stream: &UnixStream, engine: &Engine) -> io::Result<()> {
    stream.set_read_timeout(Some(QUESTION_WITHIN))?;
    let mut line = String::new();
    BufReader::new(io::Read::take(stream, QUESTION_BYTES_MAX)).read_line(&mut line)?;
    let Question { checkpoint_of } = serde_json::from_str(&line)?;
    let mut text = String::new();
    for (query, taken) in engine.checkpoint(checkpoint_of.as_deref(), PATIENCE) {
        let answer = match taken {
            Ok(last) => Answer {
                query,
                number: last.number,
                bytes: last.bytes,
                written_bytes: last.written_bytes,
                longest_pause_ns: last.longest_pause_ns,
                error: None,
            },
            Err(error) => Answer {
                query,
                number: 0,
                bytes: 0,
                written_bytes: 0,
                longest_pause_ns: 0,
                error: Some(error),
            },
        };
        text.push_str(&serde_json::to_string(&answer)?);
        text.push('\n');
    }
    let mut stream = stream;
    stream.write_all(text.as_bytes())
}

/// Asks; the answer as text.
///
/// # Errors
/// If no run works with the folder, or a query could not be saved.
pub fn ask(args: &CheckpointArgs) -> Result<String, Failure> {
    let folder = args.folder.display();
    let nobody = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Failure::User(format!(
            "no run works with state folder {folder}: 'laxity run FILE --state {folder}' does"
        )),
        _ => Failure::World(anyhow::Error::new(error).context(format!("cannot ask the run of {folder}"))),
    };
    let handle = File::open(&args.folder).map_err(nobody)?;
    let by_handle = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    let mut stream = UnixStream::connect(by_handle.join(SOCKET)).map_err(nobody)?;
    let failed = |error: io::Error| {
        Failure::World(anyhow::Error::new(error).context("the run ended, or did not answer in time"))
    };
    stream.set_read_timeout(Some(PATIENCE + QUESTION_WITHIN)).map_err(failed)?;
    let question = Question { checkpoint_of: args.query.clone() };
    let line = serde_json::to_string(&question).expect("its keys are text") + "\n";
    stream.write_all(line.as_bytes()).map_err(failed)?;
    let mut answers = Vec::new();
    for line in BufReader::new(&stream).lines() {
        let line = line.map_err(failed)?;
        answers.push(serde_json::from_str::<Answer>(&line).map_err(|error| failed(error.into()))?);
    }
    told(&answers, args.query.as_deref())
}

fn told(answers: &[Answer], asked: Option<&str>) -> Result<String, Failure> {
    let (mut text, mut refused) = (String::new(), Vec::new());
    for Answer { query, number, bytes, written_bytes, longest_pause_ns, error } in answers {
        match error {
            None => text.push_str(&format!(
                "query {query}: checkpoint {number}, {}{}; its longest pause so far is {}\n",
                short_bytes(*bytes),
                written(*bytes, *written_bytes),
                short_duration(*longest_pause_ns)
            )),
            Some(why) => refused.push(format!("query {query}: no checkpoint: {why}")),
        }
    }
    match (answers.is_empty(), asked) {
        (true, Some(query)) => Err(Failure::User(format!("no query '{query}' with checkpoints runs there"))),
        (true, None) => Err(Failure::User("no query with checkpoints runs there".to_owned())),
        _ if refused.is_empty() => Ok(text),
        _ => Err(Failure::World(anyhow::anyhow!("{text}{}", refused.join("\n")))),
    }
}

/// How much of a checkpoint was written for it, where that is not all.
pub fn written(bytes: u64, written_bytes: u64) -> String {
    match written_bytes < bytes {
        true => format!(", {} of it new", short_bytes(written_bytes)),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_it_is_told() {
        let one = |error: Option<&str>| Answer {
            query: "q".into(),
            number: 7,
            bytes: 2_048,
            written_bytes: 1_024,
            longest_pause_ns: 3_000_000,
            error: error.map(str::to_owned),
        };
        let text = told(&[one(None)], None).map_err(|failure| failure.text()).unwrap();
        assert_eq!(text, "query q: checkpoint 7, 2 KB, 1 KB of it new; its longest pause so far is 3 ms\n");
        let failed = told(&[one(None), one(Some("no room"))], None).map_err(|failure| failure.text());
        assert!(failed.unwrap_err().contains("query q: no checkpoint: no room"));
        assert!(told(&[], Some("x")).is_err_and(|failure| failure.text().contains("no query 'x'")));
    }

    #[test]
    fn nobody_to_ask_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let args = CheckpointArgs { folder: folder.path().to_owned(), query: None };
        assert!(ask(&args).is_err_and(|failure| failure.text().contains("no run works with state folder")));
    }

    #[test]
    fn the_socket_is_the_owners_alone_wherever_the_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(120)).join("y".repeat(60));
        fs::create_dir_all(&deep).unwrap();
        let engine = Arc::new(Engine::new(laxity_engine::EngineConfig::default()));
        let desk = Desk::open(&deep, Arc::downgrade(&engine)).unwrap();
        let mode = fs::metadata(deep.join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let args = CheckpointArgs { folder: deep.clone(), query: None };
        assert!(ask(&args).is_err_and(|failure| failure.text().contains("no query with checkpoints")));
        drop(desk);
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 0);
    }
}
