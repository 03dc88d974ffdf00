//! `laxity add`, `alter`, `cancel` and `checkpoint`: ask a run that goes on, at its [desk](crate::desk).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};

use anyhow::Context;

use crate::args::{AddArgs, AlterArgs, CancelArgs, CheckpointArgs};
use crate::desk::{Answer, PATIENCE, QUESTION_WITHIN, Question, SOCKET, SentFile};
use crate::failure::Failure;
use crate::quantity::{short_bytes, short_duration};
use crate::script;

/// Has queries saved; the answer as text.
///
/// # Errors
/// If no run works with the folder, or a query could not be saved.
pub fn checkpoint(args: &CheckpointArgs) -> Result<String, Failure> {
    ask(&args.folder, &Question::Checkpoint { query: args.query.clone() })
}

/// Has the queries of files run; the answer as text.
///
/// # Errors
/// If no run is asked there, a file cannot be read, or a query does not run.
pub fn add(args: &AddArgs) -> Result<String, Failure> {
    let sent = |path: &PathBuf| -> anyhow::Result<SentFile> {
        let (file, _claim) = script::read_one(path)?;
        // The run may be somewhere else.
        let path = absolute(&file.path).context("the folder that this is in has gone")?;
        Ok(SentFile { path, text: file.text })
    };
    let files = args.files.iter().map(sent).collect::<anyhow::Result<_>>();
    let files = files.map_err(|error| Failure::User(format!("{error:#}")))?;
    ask(&args.folder, &Question::Add { files, replace: args.replace })
}

/// Has a query promised something else; the answer as text.
///
/// # Errors
/// If no run is asked there, it has no such query, or the promise makes no sense.
pub fn alter(args: &AlterArgs) -> Result<String, Failure> {
    let target_ns = args.target.map(|target| u64::try_from(target.0.as_nanos()).unwrap_or(u64::MAX));
    let (query, weight, qos) = (args.query.clone(), args.weight, args.qos.clone());
    ask(&args.folder, &Question::Alter { query, target_ns, weight, qos })
}

/// Has a query ended; the answer as text.
///
/// # Errors
/// If no run is asked there, or it has no such query.
pub fn cancel(args: &CancelArgs) -> Result<String, Failure> {
    ask(&args.folder, &Question::Cancel { query: args.query.clone(), drop: args.drop })
}

fn ask(folder: &Path, question: &Question) -> Result<String, Failure> {
    let nobody = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Failure::User(format!(
            "no run works with state folder {0} or is asked there: 'laxity run FILE --state {0}' does, and one with \
             --control {0}",
            folder.display()
        )),
        _ => Failure::World(
            anyhow::Error::new(error).context(format!("cannot ask the run of {}", folder.display())),
        ),
    };
    let handle = File::open(folder).map_err(nobody)?;
    let by_handle = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    let mut stream = UnixStream::connect(by_handle.join(SOCKET)).map_err(nobody)?;
    let failed = |error: io::Error| {
        Failure::World(anyhow::Error::new(error).context("the run ended, or did not answer in time"))
    };
    stream.set_read_timeout(Some(PATIENCE + QUESTION_WITHIN)).map_err(failed)?;
    let line = serde_json::to_string(question).expect("its keys are text") + "\n";
    stream.write_all(line.as_bytes()).map_err(failed)?;
    let mut answers = Vec::new();
    for line in BufReader::new(&stream).lines() {
        let line = line.map_err(failed)?;
        answers.push(serde_json::from_str::<Answer>(&line).map_err(|error| failed(error.into()))?);
    }
    match answers.is_empty() {
        true => Err(failed(io::ErrorKind::UnexpectedEof.into())),
        false => told(answers),
    }
}

/// What was done, as text. Where something was not, that is said behind it.
fn told(answers: Vec<Answer>) -> Result<String, Failure> {
    let (mut text, mut undone, mut is_world) = (String::new(), Vec::new(), false);
    for answer in answers {
        match answer {
            Answer::Saved { query, number, bytes, written_bytes, longest_pause_ns } => {
                text.push_str(&format!(
                    "query {query}: checkpoint {number}, {}{}; its longest pause so far is {}\n",
                    short_bytes(bytes),
                    written(bytes, written_bytes),
                    short_duration(longest_pause_ns)
                ))
            }
            Answer::Told(sentence) => text.push_str(&format!("{sentence}\n")),
            Answer::Refused(why) => undone.push(why),
            Answer::Failed(why) => {
                is_world = true;
                undone.push(why);
            }
        }
    }
    let undone = undone.join("\n");
    match (undone.is_empty(), is_world) {
        (true, _) => Ok(text),
        (false, true) => Err(Failure::World(anyhow::anyhow!("{text}{undone}"))),
        (false, false) => Err(Failure::User(format!("{text}{undone}"))),
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
        let saved = || Answer::Saved {
            query: "q".into(),
            number: 7,
            bytes: 2_048,
            written_bytes: 1_024,
            longest_pause_ns: 3_000_000,
        };
        let text = told(vec![saved()]).map_err(|failure| failure.text()).unwrap();
        assert_eq!(text, "query q: checkpoint 7, 2 KB, 1 KB of it new; its longest pause so far is 3 ms\n");
        let failed = told(vec![saved(), Answer::Failed("query r: no checkpoint: no room".into())]);
        let failed = failed.unwrap_err();
        assert!(matches!(failed, Failure::World(_)));
        assert_eq!(failed.text(), format!("{text}query r: no checkpoint: no room"));
        let refused = told(vec![Answer::Told("query q runs".into()), Answer::Refused("not r".into())]);
        assert!(matches!(refused, Err(Failure::User(text)) if text == "query q runs\nnot r"));
    }

    #[test]
    fn nobody_to_ask_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let args = CheckpointArgs { folder: folder.path().to_owned(), query: None };
        assert!(
            checkpoint(&args).is_err_and(|failure| failure.text().contains("no run works with state folder"))
        );
    }
}
