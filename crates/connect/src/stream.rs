//! How pipes, terminals and devices are read without any worker ever waiting for them.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;

use crate::Waker;

/// Bytes brought and not yet taken, at most. Beyond, the writer on the other side has to wait.
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes of one read: what a pipe of Linux holds by default (pipe(7)).
const READ_BYTES: usize = 1 << 16;

/// True if reading or writing this file may take for ever: a pipe, a terminal or other device, a socket.
pub(crate) fn may_block(kind: std::fs::FileType) -> bool {
    kind.is_fifo() || kind.is_char_device() || kind.is_socket()
}

/// What may block, read by a thread of its own. Reading from here never blocks: where nothing has come yet it
/// fails with [`ErrorKind::WouldBlock`], and the waker is called once something has.
///
/// The file is opened in that thread too, because opening a pipe waits for its writer. The thread ends with the
/// input, or when this is dropped.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    /// Its other end tells the thread that this was dropped.
    _dropped: PipeWriter,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when there is room again, and when nobody will read any more.
    room: Condvar,
    waker: Waker,
}

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// How the input ended; a fault is told once.
    end: Option<io::Result<()>>,
    /// The reader was told that nothing is there.
    waited_for: bool,
    dropped: bool,
}

impl Stream {
    /// # Errors
    /// If the system starts no further thread, or opens no pipe to it.
    pub(crate) fn open(path: &Path, waker: Waker) -> io::Result<Stream> {
        let shared = Arc::new(Shared { state: Mutex::default(), room: Condvar::new(), waker });
        let (dropped, _dropped) = io::pipe()?;
        let (brought, path) = (Arc::clone(&shared), path.to_owned());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        std::thread::Builder::new().name(format!("read-{name}")).spawn(move || {
            let end = bring(path, &dropped, &brought);
            brought.update(|state| state.end = Some(end));
        })?;
        Ok(Stream { shared, _dropped })
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.shared.state.lock();
        if state.bytes.is_empty() {
            if let Some(end) = &mut state.end {
                return std::mem::replace(end, Ok(())).map(|()| 0);
            }
            state.waited_for = true;
            return Err(ErrorKind::WouldBlock.into());
        }
        let was_full = state.bytes.len() >= BUFFER_BYTES;
        let taken = state.bytes.read(buffer)?;
        if was_full {
            self.shared.room.notify_one();
        }
        Ok(taken)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.state.lock().dropped = true;
        self.shared.room.notify_one();
    }
}

impl Shared {
    /// Changes the state, and wakes a reader that waited for it.
    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let wake = std::mem::take(&mut state.waited_for);
        drop(state);
        if wake {
            self.waker.wake();
        }
    }

    /// Hands bytes over; false if nobody wants them any more.
    fn put(&self, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        while state.bytes.len() >= BUFFER_BYTES && !state.dropped {
            self.room.wait(&mut state);
        }
        if state.dropped {
            return false;
        }
        drop(state);
        self.update(|state| state.bytes.extend(bytes));
        true
    }
}

/// What the thread does.
fn bring(path: PathBuf, dropped: &PipeReader, shared: &Shared) -> io::Result<()> {
    let mut file = open(&path)?;
    let mut block = vec![0; READ_BYTES];
    loop {
        if !wait_readable(&file, dropped)? {
            return Ok(());
        }
        match file.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(bytes) if shared.put(&block[..bytes]) => {}
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let is_socket = std::fs::metadata(path)?.file_type().is_socket();
    if is_socket && is_standard_input(path) {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    }
    if is_socket {
        return Ok(File::from(OwnedFd::from(UnixStream::connect(path)?)));
    }
    // Where a pipe that has had no writer yet does not look ended to poll(2), which is so on Linux, it need not be
    // waited for in open(2), from which nothing would bring the thread back.
    let flags = if cfg!(target_os = "linux") { OFlags::NONBLOCK | OFlags::NOCTTY } else { OFlags::NOCTTY };
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

fn is_standard_input(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name))
}

/// False if it was `dropped` that came to an end.
fn wait_readable(file: &File, dropped: &PipeReader) -> io::Result<bool> {
    loop {
        let mut waited_for = [PollFd::new(file, PollFlags::IN), PollFd::new(dropped, PollFlags::IN)];
        match poll(&mut waited_for, None) {
            Ok(_) if !waited_for[1].revents().is_empty() => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
