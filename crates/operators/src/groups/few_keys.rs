//! Keys before they are many enough for a hash table: most slices and sessions have a few groups and never need one.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, StringBuilder,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMillisecondType,
};

use super::key_columns::KeyColumns;

/// The keys of up to [`GROUPS_MAX`] groups, found by comparing.
///
/// Equal are: NULLs, strings of the same bytes, and numbers of the same bits, 0.0 standing for -0.0 too; as in
/// DataFusion's `GroupValues`.
pub(super) struct FewKeys {
    columns: Box<[Column]>,
    len: usize,
}

/// As many as a bit set of groups has bits.
const GROUPS_MAX: usize = Groups::BITS as usize;

/// A set of groups.
type Groups = u32;

/// How the values of a key column are kept.
pub(super) enum Kind {
    /// Of at most eight bytes each.
    Words {
        read: fn(&dyn Array, usize) -> u64,
        write: fn(&[u64], Option<NullBuffer>, &DataType) -> ArrayRef,
        of: DataType,
    },
    Strings,
}

/// The values of a key column, by group.
struct Column {
    /// Groups for which it is NULL.
    nulls: Groups,
    /// The value, or the end of the string in `text`.
    words: Vec<u64>,
    text: String,
}

impl Kind {
    /// `None` for a type that is not kept here.
    pub(super) fn of(data_type: &DataType) -> Option<Kind> {
        fn words<T: ArrowPrimitiveType>(of: &DataType) -> Option<Kind>
        where
            T::Native: Word,
        {
            Some(Kind::Words {
                read: |array, row| array.as_primitive::<T>().value(row).to_word(),
                write: |words, nulls, of| {
                    let values: Vec<T::Native> = words.iter().map(|&word| Word::from_word(word)).collect();
                    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(of.clone()))
                },
                of: of.clone(),
            })
        }
        match data_type {
            DataType::Int8 => words::<Int8Type>(data_type),
            DataType::Int16 => words::<Int16Type>(data_type),
            DataType::Int32 => words::<Int32Type>(data_type),
            DataType::Int64 => words::<Int64Type>(data_type),
            DataType::Float32 => words::<Float32Type>(data_type),
            DataType::Float64 => words::<Float64Type>(data_type),
            DataType::Date32 => words::<Date32Type>(data_type),
            DataType::Timestamp(TimeUnit::Millisecond, _) => words::<TimestampMillisecondType>(data_type),
            DataType::Boolean => Some(Kind::Words {
                read: |array, row| u64::from(array.as_boolean().value(row)),
                write: |words, nulls, _| {
                    Arc::new(BooleanArray::new(words.iter().map(|&word| word == 1).collect(), nulls))
                },
                of: DataType::Boolean,
            }),
            DataType::Utf8 => Some(Kind::Strings),
            _ => None,
        }
    }
}

impl FewKeys {
    pub(super) fn new(kinds: &[Kind]) -> FewKeys {
        let columns = kinds.iter().map(|_| Column { nulls: 0, words: Vec::new(), text: String::new() });
        FewKeys { columns: columns.collect(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds the number of each row's group to `numbers`. Returns whether there was room for all groups; where not,
    /// those that there was room for are kept, and `numbers` are of no use.
    pub(super) fn intern(
        &mut self,
        kinds: &[Kind],
        keys: KeyColumns<'_>,
        rows: Range<usize>,
        numbers: &mut Vec<usize>,
    ) -> bool {
        for row in rows {
            let mut same = Groups::MAX.checked_shr((GROUPS_MAX - self.len) as u32).unwrap_or(0);
            for (index, (column, kind)) in self.columns.iter().zip(kinds).enumerate() {
                same &= column.equal(kind, keys.column(index).as_ref(), row);
            }
            let number = if same != 0 {
                same.trailing_zeros() as usize
            } else if self.len < GROUPS_MAX {
                for (index, (column, kind)) in self.columns.iter_mut().zip(kinds).enumerate() {
                    column.push(kind, keys.column(index).as_ref(), row, self.len);
                }
                self.len += 1;
                self.len - 1
            } else {
                return false;
            };
            numbers.push(number);
        }
        true
    }

    /// The keys by group.
    pub(super) fn arrays(&self, kinds: &[Kind]) -> Vec<ArrayRef> {
        self.columns.iter().zip(kinds).map(|(column, kind)| column.array(kind, self.len)).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        let column = |c: &Column| size_of::<Column>() + c.words.capacity() * 8 + c.text.capacity();
        self.columns.iter().map(column).sum()
    }
}

impl Column {
    /// The groups whose value is that of the row.
    fn equal(&self, kind: &Kind, array: &dyn Array, row: usize) -> Groups {
        if array.is_null(row) {
            return self.nulls;
        }
        let mut equal = 0;
        match kind {
            Kind::Words { read, .. } => {
                let word = read(array, row);
                for (group, &other) in self.words.iter().enumerate() {
                    equal |= Groups::from(word == other) << group;
                }
            }
            Kind::Strings => {
                let text = array.as_string::<i32>().value(row);
                let mut start = 0;
                for (group, &end) in self.words.iter().enumerate() {
                    equal |= Groups::from(*text == self.text[start..end as usize]) << group;
                    start = end as usize;
                }
            }
        }
        equal & !self.nulls
    }

    fn push(&mut self, kind: &Kind, array: &dyn Array, row: usize, group: usize) {
        let is_null = array.is_null(row);
        self.nulls |= Groups::from(is_null) << group;
        self.words.push(match kind {
            Kind::Words { read, .. } => {
                if is_null {
                    0
                } else {
                    read(array, row)
                }
            }
            Kind::Strings => {
                if !is_null {
                    self.text.push_str(array.as_string::<i32>().value(row));
                }
                self.text.len() as u64
            }
        });
    }

    fn array(&self, kind: &Kind, len: usize) -> ArrayRef {
        let Column { nulls, words, text } = self;
        let nulls = *nulls;
        let is_valid = |group: usize| nulls >> group & 1 == 0;
        match kind {
            Kind::Words { write, of, .. } => {
                write(words, (nulls != 0).then(|| (0..len).map(is_valid).collect()), of)
            }
            Kind::Strings => {
                let mut builder = StringBuilder::with_capacity(len, text.len());
                let mut start = 0;
                for (group, &end) in words.iter().enumerate() {
                    builder.append_option(is_valid(group).then(|| &text[start..end as usize]));
                    start = end as usize;
                }
                Arc::new(builder.finish())
            }
        }
    }
}

/// A number as the bits by which it is compared.
trait Word: Copy {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

macro_rules! integer_word {
    ($($native:ty),+) => {
        $(impl Word for $native {
            fn to_word(self) -> u64 {
                self as u64
            }

            fn from_word(word: u64) -> Self {
                word as $native
            }
        })+
    };
}

macro_rules! float_word {
    ($($native:ty, $bits:ty);+) => {
        $(impl Word for $native {
            fn to_word(self) -> u64 {
                let zero_is_positive = if self == 0.0 { 0.0 } else { self };
                u64::from(zero_is_positive.to_bits())
            }

            fn from_word(word: u64) -> Self {
                <$native>::from_bits(word as $bits)
            }
        })+
    };
}

integer_word!(i8, i16, i32, i64);
float_word!(f32, u32; f64, u64);
