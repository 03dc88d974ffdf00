//! Bytes that go to the disk past the page cache.
//!
//! Nobody reads a checkpoint while the program runs. In the page cache it would cost a copy of every byte, and push out what
//! others on the machine read.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::OFlags;

/// A new file. What is too small to fill [`CHUNK_BYTES`], and all of it where the file system has no direct writes, goes
/// through the page cache.
pub(crate) struct DirectFile {
    file: File,
    /// Its bytes from `start` on are not written yet; those lie at an address that a disk can read from.
    buffer: Vec<u8>,
    start: usize,
    is_direct: bool,
    may_be_direct: bool,
}

/// A disk with one write in flight at a time is busy with writes of this size.
const CHUNK_BYTES: usize = 1 << 20;
/// No disk asks for more, in addresses, places and lengths.
const ALIGNMENT_BYTES: usize = 4096;
#[cfg(target_os = "linux")]
const DIRECT: OFlags = OFlags::DIRECT;
/// Elsewhere there is no such flag, and all goes through the page cache.
#[cfg(not(target_os = "linux"))]
const DIRECT: OFlags = OFlags::empty();
/// Read, copied and summed before the next are: they stay in the nearest caches meanwhile.
const STEP_BYTES: usize = 32 << 10;

impl DirectFile {
    /// Through the page cache, if it may not be direct: for whom reads it at once.
    pub fn new(file: File, may_be_direct: bool) -> DirectFile {
        let buffer = Vec::<u8>::with_capacity(CHUNK_BYTES + ALIGNMENT_BYTES);
        let start = buffer.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        let mut file = DirectFile { file, buffer, start, is_direct: false, may_be_direct };
        file.buffer.resize(start, 0);
        file
    }

    /// Writes what is left; returns when all is on the disk.
    pub fn sync(mut self) -> io::Result<()> {
        // The end of a file is no whole block.
        self.set_direct(false)?;
        self.file.write_all(&self.buffer[self.start..])?;
        self.file.sync_all()
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        if self.may_be_direct && !self.is_direct {
            self.may_be_direct = self.set_direct(true).is_ok();
        }
        let mut at = self.start;
        while at < self.buffer.len() {
            match self.file.write(&self.buffer[at..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => at += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It took the flag and does not write so, or not from the middle of a block on.
                Err(error) if self.is_direct && error.kind() == io::ErrorKind::InvalidInput => {
                    self.may_be_direct = false;
                    self.set_direct(false)?;
                }
                Err(error) => return Err(error),
            }
        }
        self.buffer.truncate(self.start);
        Ok(())
    }

    fn set_direct(&mut self, is_direct: bool) -> io::Result<()> {
        if self.is_direct != is_direct {
            let mut flags = rustix::fs::fcntl_getfl(&self.file)?;
            flags.set(DIRECT, is_direct);
            rustix::fs::fcntl_setfl(&self.file, flags)?;
            self.is_direct = is_direct;
        }
        Ok(())
    }
}

impl Write for DirectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let free = CHUNK_BYTES - (self.buffer.len() - self.start);
        let taken = bytes.len().min(free).min(STEP_BYTES);
        // Never beyond the capacity, so that the buffer stays where it is.
        self.buffer.extend_from_slice(&bytes[..taken]);
        if taken == free {
            self.write_chunk()?;
        }
        Ok(taken)
    }

    /// Whole chunks alone go to the disk before the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! What was written is there, wherever pieces and chunks end. Cannot catch: what a disk loses when the power fails.

    use super::*;

    fn written(lengths: &[usize], may_be_direct: bool) -> (Vec<u8>, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = DirectFile::new(File::create_new(&path).unwrap(), may_be_direct);
        let mut expected = Vec::new();
        for (piece, &length) in lengths.iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 + at / 256 + piece) as u8).collect();
            file.write_all(&bytes).unwrap();
            expected.extend_from_slice(&bytes);
        }
        file.sync().unwrap();
        (std::fs::read(&path).unwrap(), expected)
    }

    #[test]
    fn every_length_is_written_whole() {
        let chunk = CHUNK_BYTES;
        for lengths in [
            &[][..],
            &[1],
            &[chunk - 1],
            &[chunk],
            &[chunk + 1],
            &[3 * chunk],
            &[7, 3 * chunk - 7],
            &[chunk - 1, 1, 1, 2 * chunk + 4_095, 4_097],
            &[100_003; 40],
        ] {
            for may_be_direct in [true, false] {
                let (read, expected) = written(lengths, may_be_direct);
                assert!(read == expected, "{lengths:?}, direct: {may_be_direct}");
            }
        }
    }

    #[test]
    fn what_the_disk_does_not_take_directly_is_written_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = DirectFile::new(File::create_new(&path).unwrap(), true);
        // An address that no disk reads from.
        file.buffer.push(0);
        file.start += 1;
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 5).map(|at| (at * 31 + at / 256) as u8).collect();
        file.write_all(&bytes).unwrap();
        file.sync().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
    }

    #[test]
    fn a_full_disk_is_told() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut file = DirectFile::new(full, true);
        let error = file.write_all(&vec![0; 2 * CHUNK_BYTES]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
