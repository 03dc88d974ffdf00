//! The values of one column of `datagen`, random or a sequence. A generator keeps nothing from row to row, so that a
//! scan can begin at any row.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringBuilder};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};

use crate::OptionError;
use crate::options::OptionReader;

use super::is_supported;

/// Makes the values of one column.
pub(super) struct Generator {
    data_type: DataType,
    nullable: bool,
    stream: u64,
    null_rate: f64,
    kind: Kind,
}

enum Kind {
    /// Counts from `start`.
    Sequence {
        start: i64,
    },
    /// Whole numbers from `min` to `max`; of a DECIMAL, its digits.
    Integers {
        min: i64,
        max: i64,
    },
    Floats {
        min: f64,
        max: f64,
    },
    /// Hexadecimal digits.
    Text {
        length: u64,
    },
    Booleans,
    /// The instant at which the row is due, less up to `max_past_ms`.
    Past {
        max_past_ms: u64,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum KindName {
    Random,
    Sequence,
}

/// Rows of a column with the wall clock at which each is due.
type WallClock<'a> = dyn Fn(u64) -> i64 + 'a;

impl Generator {
    /// The generator of a column, and how many rows it has if it is a sequence.
    pub(super) fn read(
        field: &Field,
        seed: u64,
        index: u64,
        options: &OptionReader<'_>,
    ) -> Result<(Generator, Option<u64>), OptionError> {
        let key = |name: &str| format!("fields.{}.{name}", field.name());
        let data_type = field.data_type();
        if !is_supported(data_type) {
            let message = format!("datagen cannot make column '{}' of type {data_type}", field.name());
            return Err(options.error("connector", message));
        }
        let kinds = [("random", KindName::Random), ("sequence", KindName::Sequence)];
        let kind = options.choice(&key("kind"), &kinds)?.unwrap_or(KindName::Random);
        let null_rate = options
            .parsed(&key("null-rate"), "a share from 0 to 1", |text| {
                text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate))
            })?
            .unwrap_or(0.0);
        if null_rate > 0.0 && !field.is_nullable() {
            return Err(options.error(&key("null-rate"), "the column is NOT NULL"));
        }
        let mut rows = None;
        let kind = match kind {
            KindName::Sequence => {
                let (start, length) = sequence(field, &key, options)?;
                rows = Some(length);
                Kind::Sequence { start }
            }
            KindName::Random => random(field, &key, options)?,
        };
        let generator = Generator {
            data_type: data_type.clone(),
            nullable: field.is_nullable(),
            stream: mix(seed.wrapping_add(index.wrapping_mul(GOLDEN))),
            null_rate,
            kind,
        };
        Ok((generator, rows))
    }

    /// What a value takes in memory, at most and roughly.
    pub(super) fn value_bytes(&self) -> u64 {
        match self.kind {
            Kind::Text { length } => length,
            // An i128, or the digits of an i64.
            _ => 20,
        }
    }

    /// The values of `count` rows from `first` on.
    pub(super) fn column(&self, first: u64, count: usize, wall_ms: &WallClock<'_>) -> ArrayRef {
        use DataType::*;
        let rows = first..first + count as u64;
        match &self.data_type {
            Boolean => Arc::new(
                rows.map(|row| self.unless_null(row, || self.draw(row, 1) & 1 == 1))
                    .collect::<BooleanArray>(),
            ),
            Utf8 => self.strings(rows),
            Int8 => self.primitives::<Int8Type>(rows, |row| self.integer(row) as i8),
            Int16 => self.primitives::<Int16Type>(rows, |row| self.integer(row) as i16),
            Int32 => self.primitives::<Int32Type>(rows, |row| self.integer(row) as i32),
            Int64 => self.primitives::<Int64Type>(rows, |row| self.integer(row)),
            Decimal128(_, scale) => {
                // A sequence counts ones, random numbers fill the digits.
                let one = match self.kind {
                    Kind::Sequence { .. } => 10_i128.pow(u32::from(scale.unsigned_abs())),
                    _ => 1,
                };
                self.primitives::<Decimal128Type>(rows, |row| i128::from(self.integer(row)) * one)
            }
            Float32 => self.primitives::<Float32Type>(rows, |row| self.float(row) as f32),
            Float64 => self.primitives::<Float64Type>(rows, |row| self.float(row)),
            Date32 => self.primitives::<Date32Type>(rows, |row| {
                self.instant_ms(row, wall_ms).div_euclid(86_400_000) as i32
            }),
            Time32(TimeUnit::Second) => self.primitives::<Time32SecondType>(rows, |row| {
                (self.instant_ms(row, wall_ms).rem_euclid(86_400_000) / 1_000) as i32
            }),
            Time32(_) => self.primitives::<Time32MillisecondType>(rows, |row| {
                self.instant_ms(row, wall_ms).rem_euclid(86_400_000) as i32
            }),
            Timestamp(TimeUnit::Second, _) => self.primitives::<TimestampSecondType>(rows, |row| {
                self.instant_ms(row, wall_ms).div_euclid(1_000)
            }),
            Timestamp(TimeUnit::Millisecond, _) => {
                self.primitives::<TimestampMillisecondType>(rows, |row| self.instant_ms(row, wall_ms))
            }
            Timestamp(TimeUnit::Microsecond, _) => {
                self.primitives::<TimestampMicrosecondType>(rows, |row| self.instant_ms(row, wall_ms) * 1_000)
            }
            Timestamp(TimeUnit::Nanosecond, _) => self
                .primitives::<TimestampNanosecondType>(rows, |row| self.instant_ms(row, wall_ms) * 1_000_000),
            other => unreachable!("validation refuses {other}"),
        }
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        rows: std::ops::Range<u64>,
        value: impl Fn(u64) -> T::Native,
    ) -> ArrayRef {
        let array: PrimitiveArray<T> = match self.null_rate > 0.0 {
            true => rows.map(|row| self.unless_null(row, || value(row))).collect(),
            false => PrimitiveArray::from_iter_values(rows.map(value)),
        };
        Arc::new(array.with_data_type(self.data_type.clone()))
    }

    fn strings(&self, rows: std::ops::Range<u64>) -> ArrayRef {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut values = StringBuilder::new();
        let mut text = String::new();
        for row in rows {
            text.clear();
            match self.kind {
                Kind::Text { length } => {
                    for place in 0..length {
                        let bits = self.draw(row, 1 + place / 16) >> (place % 16 * 4);
                        text.push(DIGITS[(bits & 15) as usize].into());
                    }
                }
                _ => text.push_str(&self.integer(row).to_string()),
            }
            values.append_option(self.unless_null(row, || text.as_str()));
        }
        Arc::new(values.finish())
    }

    fn integer(&self, row: u64) -> i64 {
        match self.kind {
            Kind::Sequence { start } => start.wrapping_add(row as i64),
            Kind::Integers { min, max } => {
                let values = (i128::from(max) - i128::from(min) + 1) as u128;
                // Multiply and shift (Lemire 2019): a share of 2^-64 of bias is fine for test data.
                let offset = (u128::from(self.draw(row, 1)) * values) >> 64;
                (i128::from(min) + offset as i128) as i64
            }
            _ => unreachable!("other kinds make no integers"),
        }
    }

    fn float(&self, row: u64) -> f64 {
        match self.kind {
            Kind::Sequence { start } => start.wrapping_add(row as i64) as f64,
            Kind::Floats { min, max } => {
                let unit = unit_interval(self.draw(row, 1));
                // Halves, because the full range of a DOUBLE is wider than a DOUBLE.
                min + (max / 2.0 - min / 2.0) * unit * 2.0
            }
            _ => unreachable!("other kinds make no floats"),
        }
    }

    fn instant_ms(&self, row: u64, wall_ms: &WallClock<'_>) -> i64 {
        match self.kind {
            Kind::Past { max_past_ms } => {
                let past = (u128::from(self.draw(row, 1)) * (u128::from(max_past_ms) + 1)) >> 64;
                wall_ms(row) - past as i64
            }
            _ => unreachable!("other kinds make no instants"),
        }
    }

    fn unless_null<T>(&self, row: u64, value: impl FnOnce() -> T) -> Option<T> {
        let null = self.nullable && unit_interval(self.draw(row, 0)) < self.null_rate;
        (!null).then(value)
    }

    /// Random bits of a row: a hash of where they are used, so that any row can be made alone.
    fn draw(&self, row: u64, place: u64) -> u64 {
        mix(self.stream ^ mix(row.wrapping_mul(GOLDEN).wrapping_add(place)))
    }
}

fn random(
    field: &Field,
    key: &impl Fn(&str) -> String,
    options: &OptionReader<'_>,
) -> Result<Kind, OptionError> {
    let integer = |name: &str, low: i64, high: i64| {
        options.parsed(&key(name), &format!("a whole number from {low} to {high}"), |text| {
            text.parse().ok().filter(|value| (low..=high).contains(value))
        })
    };
    let integers = |low: i64, high: i64| {
        let (min, max) =
            (integer("min", low, high)?.unwrap_or(low), integer("max", low, high)?.unwrap_or(high));
        if min > max {
            return Err(options.error(&key("max"), format!("{max} is less than the least value, {min}")));
        }
        Ok(Kind::Integers { min, max })
    };
    let number = |name: &str| {
        options
            .parsed(&key(name), "a number", |text| text.parse().ok().filter(|value: &f64| value.is_finite()))
    };
    let floats = |low: f64, high: f64| {
        let (min, max) = (number("min")?.unwrap_or(low), number("max")?.unwrap_or(high));
        if min > max {
            return Err(options.error(&key("max"), format!("{max} is less than the least value, {min}")));
        }
        Ok(Kind::Floats { min, max })
    };
    match field.data_type() {
        DataType::Boolean => Ok(Kind::Booleans),
        DataType::Utf8 => {
            let expected = format!("a whole number from 1 to {TEXT_BYTES_MAX}");
            let length = options.parsed(&key("length"), &expected, |text| {
                text.parse().ok().filter(|length| (1..=TEXT_BYTES_MAX).contains(length))
            })?;
            Ok(Kind::Text { length: length.unwrap_or(100) })
        }
        DataType::Int8 => integers(i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => integers(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => integers(i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => integers(i64::MIN, i64::MAX),
        DataType::Decimal128(precision, scale) => decimals(*precision, *scale, key, options),
        DataType::Float32 => floats(f32::MIN.into(), f32::MAX.into()),
        DataType::Float64 => floats(f64::MIN, f64::MAX),
        _ => {
            let max_past = options.duration(&key("max-past"))?.unwrap_or_default();
            Ok(Kind::Past { max_past_ms: u64::try_from(max_past.as_millis()).unwrap_or(u64::MAX) })
        }
    }
}

/// Bounds are numbers; what is drawn are the digits of the decimal.
fn decimals(
    precision: u8,
    scale: i8,
    key: &impl Fn(&str) -> String,
    options: &OptionReader<'_>,
) -> Result<Kind, OptionError> {
    // 18 digits are what 64 bits hold.
    let all = 10_i64.pow(u32::from(precision.min(18))) - 1;
    let bound = |name: &str| {
        options.parsed(&key(name), &format!("a number of DECIMAL({precision}, {scale})"), |text| {
            let value: f64 = text.parse().ok()?;
            let digits = (value * 10_f64.powi(scale.into())).round();
            (digits.abs() <= all as f64).then_some(digits as i64)
        })
    };
    let (min, max) = (bound("min")?.unwrap_or(-all), bound("max")?.unwrap_or(all));
    if min > max {
        return Err(options.error(&key("max"), "less than the least value"));
    }
    Ok(Kind::Integers { min, max })
}

fn sequence(
    field: &Field,
    key: &impl Fn(&str) -> String,
    options: &OptionReader<'_>,
) -> Result<(i64, u64), OptionError> {
    use DataType::*;
    let (low, high) = match field.data_type() {
        Int8 => (i8::MIN.into(), i8::MAX.into()),
        Int16 => (i16::MIN.into(), i16::MAX.into()),
        Int32 => (i32::MIN.into(), i32::MAX.into()),
        Int64 | Float32 | Float64 | Utf8 => (i64::MIN, i64::MAX),
        Decimal128(precision, scale) => {
            let whole = (i16::from(*precision) - i16::from(*scale)).clamp(0, 18);
            let max = 10_i64.pow(whole as u32) - 1;
            (-max, max)
        }
        other => {
            return Err(options.error(
                &key("kind"),
                format!("a column of type {other} cannot be a sequence; use 'random'"),
            ));
        }
    };
    let bound = |name: &str| -> Result<i64, OptionError> {
        let expected = format!("a whole number from {low} to {high}");
        options
            .parsed(&key(name), &expected, |text| {
                text.parse().ok().filter(|value| (low..=high).contains(value))
            })?
            .ok_or_else(|| options.error(&key(name), format!("missing; a sequence needs {expected}")))
    };
    let (start, end) = (bound("start")?, bound("end")?);
    if start > end {
        return Err(options.error(&key("end"), format!("{end} is less than the start, {start}")));
    }
    let length = i128::from(end) - i128::from(start) + 1;
    Ok((start, u64::try_from(length).unwrap_or(u64::MAX)))
}

/// Characters of a made-up text: what a batch of one row can hold many times over.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// 2^64 / golden ratio, odd: the increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64 (Steele, Lea, Flood 2014, variant 13 of Stafford).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// 0 inclusive to 1 exclusive, from the 53 bits that a DOUBLE holds.
fn unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
