//! Texts and bytes in other spellings: Base64, hexadecimal, binary, of URLs.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use datafusion_common::{Result, exec_err};
use sha1::{Digest, Sha1};

use crate::text::texts;
use crate::{FlinkFunction, Parameter, pure};

/// Reads what Java's basic decoder reads: padding may be missing, and bits that make no byte are passed over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

const fn of_text(name: &'static str, invoke: fn(&[ArrayRef], usize) -> Result<ArrayRef>) -> FlinkFunction {
    let returns = |_: &[DataType]| DataType::Utf8;
    FlinkFunction {
        name,
        parameters: &[Parameter::Text],
        least: 1,
        most: 1,
        returns,
        invoke,
        signature: pure,
    }
}

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    of_text("from_base64", |args, _| {
        let read = texts(&args[0]).iter().map(|text| {
            let Some(text) = text else { return Ok(None) };
            match BASE64.decode(text) {
                Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
                Err(_) => exec_err!("'{text}' is not Base64"),
            }
        });
        Ok(Arc::new(read.collect::<Result<StringArray>>()?))
    }),
    // DataFusion has the other digests.
    of_text("sha1", |args, _| {
        each(args, |text| Some(Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()))
    }),
    of_text("url_encode", |args, _| each(args, |text| Some(url_encoded(text)))),
    of_text("url_decode", |args, _| each(args, url_decoded)),
    FlinkFunction {
        name: "hex",
        parameters: &[Parameter::TextOrLong],
        least: 1,
        most: 1,
        returns: |_| DataType::Utf8,
        invoke: |args, _| match args[0].as_primitive_opt::<Int64Type>() {
            Some(numbers) => Ok(written(numbers.iter().map(|number| number.map(|n| format!("{n:X}"))))),
            None => each(args, |text| Some(text.bytes().map(|byte| format!("{byte:02X}")).collect())),
        },
        signature: pure,
    },
    FlinkFunction {
        name: "unhex",
        parameters: &[Parameter::Text],
        least: 1,
        most: 1,
        returns: |_| DataType::Binary,
        invoke: |args, _| {
            let bytes = texts(&args[0]).iter().map(|text| text.and_then(unhexed));
            Ok(Arc::new(bytes.collect::<BinaryArray>()))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "bin",
        parameters: &[Parameter::Long],
        least: 1,
        most: 1,
        returns: |_| DataType::Utf8,
        invoke: |args, _| {
            let numbers = args[0].as_primitive::<Int64Type>();
            Ok(written(numbers.iter().map(|number| number.map(|n| format!("{n:b}")))))
        },
        signature: pure,
    },
];

fn written(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn each(args: &[ArrayRef], write: impl Fn(&str) -> Option<String>) -> Result<ArrayRef> {
    Ok(written(texts(&args[0]).iter().map(|text| text.and_then(&write))))
}

/// An odd number of digits has a zero before it. `None` if one is no digit.
fn unhexed(text: &str) -> Option<Vec<u8>> {
    let padded = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_string() };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(&pair[0])? * 16 + digit(&pair[1])?) as u8);
    padded.as_bytes().chunks(2).map(pair).collect()
}

/// As Java's `URLEncoder`.
fn url_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => out.push(byte.into()),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// As Java's `URLDecoder`. `None` if a `%` is not followed by two digits.
fn url_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                out.push((digit()? * 16 + digit()?) as u8);
            }
            other => out.push(other),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
