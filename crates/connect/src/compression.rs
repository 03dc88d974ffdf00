use std::fs::File;
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

    /// `bytes_read` counts the bytes of the file, for progress.
    pub(crate) fn reader(self, file: File, bytes_read: Arc<AtomicU64>) -> io::Result<Box<dyn Read + Send>> {
        let file = CountedFile { file, bytes_read };
        Ok(match self {
            Compression::None => Box::new(file),
            // A .gz file may be several gzip members one after the other.
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, file)))
            }
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(file)?),
        })
    }

    pub(crate) fn writer(self, file: File) -> io::Result<PackedFile> {
        Ok(match self {
            Compression::None => PackedFile::Plain(file),
            Compression::Gzip => {
                PackedFile::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::fast()))
            }
            Compression::Zstd => PackedFile::Zstd(Box::new(zstd::stream::write::Encoder::new(file, 0)?)),
        })
    }
}

struct CountedFile {
    file: File,
    bytes_read: Arc<AtomicU64>,
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// A file that is packed as it is written.
pub(crate) enum PackedFile {
    Plain(File),
    Gzip(flate2::write::GzEncoder<File>),
    Zstd(Box<zstd::stream::write::Encoder<'static, File>>),
}

impl PackedFile {
    /// Writes `bytes` so that a reader of the file sees them now. Flushing a packed stream costs some bytes
    /// each time; rows that nobody can see yet would cost more.
    pub(crate) fn write_visibly(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            PackedFile::Plain(file) => file.write_all(bytes),
            PackedFile::Gzip(encoder) => encoder.write_all(bytes).and_then(|()| encoder.flush()),
            PackedFile::Zstd(encoder) => encoder.write_all(bytes).and_then(|()| encoder.flush()),
        }
    }

    /// Writes the trailer.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            PackedFile::Plain(_) => Ok(()),
            PackedFile::Gzip(encoder) => encoder.finish().map(drop),
            PackedFile::Zstd(encoder) => encoder.finish().map(drop),
        }
    }
}
