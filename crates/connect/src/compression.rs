//! How files are unpacked and packed. What was packed so far can be read at any time, and not only once the file is
//! complete.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::OptionError;
use crate::options::OptionReader;

/// How a file's bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// The option 'compression'; `None` means "as the file's name says".
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<Option<Compression>, OptionError> {
        let choices = [
            ("auto", None),
            ("none", Some(Compression::None)),
            ("gzip", Some(Compression::Gzip)),
            ("zstd", Some(Compression::Zstd)),
        ];
        Ok(options.choice("compression", &choices)?.flatten())
    }

    pub(crate) fn of_name(path: &Path) -> Compression {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz" | "gzip") => Compression::Gzip,
            Some("zst" | "zstd") => Compression::Zstd,
            _ => Compression::None,
        }
    }

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }

    /// Unpacks `input`; `bytes_read` counts its bytes, for progress. Where the input has nothing yet
    /// ([`io::ErrorKind::WouldBlock`]), neither has the answer, and loses nothing.
    pub(crate) fn reader(
        self,
        input: impl Read + Send + 'static,
        bytes_read: Arc<AtomicU64>,
    ) -> io::Result<Box<dyn Read + Send>> {
        let input = Counted { input, bytes_read };
        Ok(match self {
            Compression::None => Box::new(input),
            // A .gz file may be several gzip members one after the other.
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 14, input)))
            }
            Compression::Zstd => {
                let input = io::BufReader::with_capacity(1 << 15, input);
                Box::new(zstd::stream::read::Decoder::with_buffer(input)?)
            }
        })
    }

    /// What packs in this way.
    pub(crate) fn packer(self) -> io::Result<Packer> {
        Ok(match self {
            Compression::None => Packer::Plain,
            Compression::Gzip => {
                Packer::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()))
            }
            Compression::Zstd => Packer::Zstd(Box::new(zstd::stream::write::Encoder::new(Vec::new(), 0)?)),
        })
    }
}

struct Counted<R> {
    input: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Packs bytes, piece by piece. Its own buffer is used again and again.
pub(crate) enum Packer {
    Plain,
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

impl Packer {
    /// Moves `bytes` to the end of `out`, so that whoever reads up to there sees all of them. Flushing a packed
    /// stream costs some bytes each time; rows that nobody can see yet would cost more.
    pub(crate) fn pack_visibly(&mut self, bytes: &mut Vec<u8>, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Packer::Plain => out.append(bytes),
            Packer::Gzip(encoder) => {
                encoder.write_all(bytes).and_then(|()| encoder.flush())?;
                out.append(encoder.get_mut());
            }
            Packer::Zstd(encoder) => {
                encoder.write_all(bytes).and_then(|()| encoder.flush())?;
                out.append(encoder.get_mut());
            }
        }
        bytes.clear();
        Ok(())
    }

    /// Appends the trailer.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Packer::Plain => {}
            Packer::Gzip(encoder) => out.append(&mut encoder.finish()?),
            Packer::Zstd(encoder) => out.append(&mut encoder.finish()?),
        }
        Ok(())
    }
}
