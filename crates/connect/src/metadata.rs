//! Marks of columns: the METADATA keys that a connector has, and PRIMARY KEY.

use std::collections::{BTreeSet, HashMap};

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

/// A field of a ROW column, to be read without the rest of that. No SQL names it: such columns stand behind those of METADATA in
/// [`TableSpec::schema`](crate::TableSpec::schema), where the connector [reads fields](crate::Connector::reads_fields).
pub struct FieldColumn;

/// Key of its mark; the value is the place of the ROW column, and those of the fields on the way from it.
const FIELD: &str = "laxity.field";

impl FieldColumn {
    /// A column for each field of these columns, and for each field of such a field. None that would have the name of another, of
    /// which `taken` are more.
    pub fn of_all(columns: &[Field], taken: &BTreeSet<&str>) -> Vec<Field> {
        let mut found = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            add_fields(column, &[place], &mut found);
        }
        let mut names: BTreeSet<String> = columns.iter().map(|column| column.name().clone()).collect();
        found.retain(|field| !taken.contains(field.name().as_str()) && names.insert(field.name().clone()));
        found
    }

    /// The place of the ROW column, and those of the fields on the way from it; `None` for any other column.
    pub fn way(field: &Field) -> Option<(usize, Vec<usize>)> {
        let mut places = field.metadata().get(FIELD)?.split('.').map(|place| place.parse().ok());
        Some((places.next()??, places.collect::<Option<_>>()?))
    }

    /// The same field without the mark, for rows that are on their way.
    pub fn unmarked(field: &Field) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.remove(FIELD);
        field.clone().with_metadata(metadata)
    }
}

fn add_fields(row: &Field, way: &[usize], found: &mut Vec<Field>) {
    let DataType::Struct(fields) = row.data_type() else { return };
    for (place, field) in fields.iter().enumerate() {
        let way: Vec<usize> = way.iter().copied().chain([place]).collect();
        let mark = way.iter().map(usize::to_string).collect::<Vec<_>>().join(".");
        // Of a row that is NULL, it is.
        let nullable = row.is_nullable() || field.is_nullable();
        let column =
            Field::new(format!("{}.{}", row.name(), field.name()), field.data_type().clone(), nullable);
        found.push(column.clone().with_metadata(HashMap::from([(FIELD.to_owned(), mark)])));
        add_fields(&column, &way, found);
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
