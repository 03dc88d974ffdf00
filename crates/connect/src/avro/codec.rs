//! How blocks of a file are packed.

use std::io::{self, Read, Write};

use arrow_avro::compression::CompressionCodec;

use crate::OptionError;
use crate::options::OptionReader;

/// By its name in a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
}

const ALL: [(&str, Codec); 4] = [
    ("null", Codec::Null),
    ("deflate", Codec::Deflate),
    ("snappy", Codec::Snappy),
    ("zstandard", Codec::Zstandard),
];

impl Codec {
    /// The option 'avro.codec'. The default is Flink's.
    pub(super) fn read(options: &OptionReader<'_>) -> Result<Codec, OptionError> {
        Ok(options.choice("avro.codec", &ALL)?.unwrap_or(Codec::Snappy))
    }

    /// # Errors
    /// If it is none of ours.
    pub(super) fn of(found: Option<CompressionCodec>) -> Result<Codec, String> {
        match found {
            None => Ok(Codec::Null),
            Some(CompressionCodec::Deflate) => Ok(Codec::Deflate),
            Some(CompressionCodec::Snappy) => Ok(Codec::Snappy),
            Some(CompressionCodec::ZStandard) => Ok(Codec::Zstandard),
            Some(other) => {
                let ours = "null, deflate, snappy and zstandard can be read";
                Err(format!("its blocks are packed as {other:?}; {ours}").to_lowercase())
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        ALL.iter().find(|(_, codec)| *codec == self).expect("all are there").0
    }

    /// `block` gets what is in `packed`, which is worth nothing after that.
    ///
    /// # Errors
    /// If it is not packed so, or is more than `bytes_max`.
    pub(super) fn unpack(
        self,
        packed: &mut Vec<u8>,
        block: &mut Vec<u8>,
        bytes_max: usize,
    ) -> io::Result<()> {
        block.clear();
        match self {
            Codec::Null => std::mem::swap(packed, block),
            Codec::Deflate => {
                flate2::read::DeflateDecoder::new(&packed[..])
                    .take(bytes_max as u64 + 1)
                    .read_to_end(block)?;
            }
            Codec::Zstandard => {
                zstd::stream::read::Decoder::new(&packed[..])?
                    .take(bytes_max as u64 + 1)
                    .read_to_end(block)?;
            }
            Codec::Snappy => unpack_snappy(packed, block, bytes_max)?,
        }
        if block.len() > bytes_max {
            return Err(io::Error::other(format!("a block holds more than {} MiB", bytes_max >> 20)));
        }
        Ok(())
    }

    /// Appends what is made of `block`.
    ///
    /// # Errors
    /// If the packing library refuses.
    pub(super) fn pack(self, block: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Codec::Null => out.extend_from_slice(block),
            Codec::Deflate => {
                let mut packer = flate2::write::DeflateEncoder::new(out, flate2::Compression::fast());
                packer.write_all(block)?;
                packer.finish()?;
            }
            Codec::Zstandard => zstd::stream::copy_encode(block, out, 0)?,
            Codec::Snappy => {
                out.extend(snap::raw::Encoder::new().compress_vec(block)?);
                out.extend(crc32fast::hash(block).to_be_bytes());
            }
        }
        Ok(())
    }
}

/// Behind the packed bytes stands a checksum of the others.
fn unpack_snappy(packed: &[u8], block: &mut Vec<u8>, bytes_max: usize) -> io::Result<()> {
    let (packed, checksum) = packed.split_last_chunk::<4>().ok_or(io::ErrorKind::UnexpectedEof)?;
    let bytes = snap::raw::decompress_len(packed)?;
    // What is longer is refused by its length; it is not unpacked for that.
    block.resize(bytes.min(bytes_max + 1), 0);
    if bytes > bytes_max {
        return Ok(());
    }
    snap::raw::Decoder::new().decompress(packed, block)?;
    match crc32fast::hash(block) == u32::from_be_bytes(*checksum) {
        true => Ok(()),
        false => Err(io::Error::other("a block does not have its checksum")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_snappy_has_its_checksum() {
        let mut packed = Vec::new();
        Codec::Snappy.pack(b"abc", &mut packed).unwrap();
        *packed.last_mut().unwrap() ^= 1;
        let error = Codec::Snappy.unpack(&mut packed, &mut Vec::new(), 10).unwrap_err();
        assert_eq!(error.to_string(), "a block does not have its checksum");
        assert!(Codec::Snappy.unpack(&mut vec![1, 2], &mut Vec::new(), 10).is_err());
    }

    #[test]
    fn blocks_are_unpacked_as_they_were_packed_and_no_further_than_the_bound() {
        let block: Vec<u8> = (0..100_000_u32).flat_map(|number| (number / 7).to_be_bytes()).collect();
        for (name, codec) in ALL {
            assert_eq!(codec.name(), name);
            let pack = || {
                let mut packed = Vec::new();
                codec.pack(&block, &mut packed).unwrap();
                packed
            };
            let mut unpacked = vec![1];
            codec.unpack(&mut pack(), &mut unpacked, block.len()).unwrap();
            assert!(unpacked == block, "{name}");
            let error = codec.unpack(&mut pack(), &mut unpacked, block.len() - 1).unwrap_err();
            assert_eq!(error.to_string(), "a block holds more than 0 MiB", "{name}");
            if codec != Codec::Null {
                assert!(codec.unpack(&mut block.clone(), &mut unpacked, block.len()).is_err(), "{name}");
            }
        }
    }
}
