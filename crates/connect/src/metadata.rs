use std::collections::HashMap;

use arrow::datatypes::{DataType, Field};

use crate::MetadataKey;

/// Key of the mark in a field's metadata.
const MARK: &str = "laxity.metadata";

impl MetadataKey {
    /// A column of it: a field of [`TableSpec::schema`](crate::TableSpec::schema) that bears a mark; those of the records
    /// themselves are without.
    pub fn field(&self, name: &str, data_type: DataType, nullable: bool) -> Field {
        let mark = HashMap::from([(MARK.to_owned(), self.key.to_owned())]);
        Field::new(name, data_type, nullable).with_metadata(mark)
    }

    /// The key of which a column is; `None` for one of the records.
    pub fn of(field: &Field) -> Option<&str> {
        field.metadata().get(MARK).map(String::as_str)
    }
}

/// Columns of PRIMARY KEY: fields of [`TableSpec::schema`](crate::TableSpec::schema) that bear a mark.
pub struct PrimaryKey;

/// Key of its mark; the value is the place in the key.
const PRIMARY_KEY: &str = "laxity.primary-key";

impl PrimaryKey {
    /// The field as the one at this place of the key, from 0.
    pub fn mark(field: Field, place: usize) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(PRIMARY_KEY.to_owned(), place.to_string());
        field.with_metadata(metadata)
    }

    /// The place of a field in the key; `None` for one that is not of it.
    pub fn place(field: &Field) -> Option<usize> {
        field.metadata().get(PRIMARY_KEY)?.parse().ok()
    }
}

/// A column that no SQL names: of which part of the input each row is, for tables whose parts have watermarks of their
/// own. It is the last one of [`TableSpec::schema`](crate::TableSpec::schema).
///
/// Its type is `List<Int32>`. The first item is the part of the row; where there are more, they are the parts that
/// the watermark has to wait for from this row on, that is all but the idle ones.
pub struct SplitColumn;

impl SplitColumn {
    /// Its name, which no column of SQL has.
    pub const NAME: &str = "$split";

    /// The column.
    pub fn field() -> Field {
        Field::new(SplitColumn::NAME, SplitColumn::data_type(), false)
    }

    /// Its type.
    pub fn data_type() -> DataType {
        DataType::new_list(DataType::Int32, false)
    }

    /// Whether a column is the one.
    pub fn is(field: &Field) -> bool {
        field.name() == SplitColumn::NAME
    }
}
