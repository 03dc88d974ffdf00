//! Which of a table's columns are in a record's value, and which in its key.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use laxity_connect::{
    Direction, FieldColumn, MetadataKey, OptionError, OptionReader, RecordFormat, SplitColumn,
};

/// The formats of a table's records.
#[derive(Clone, Debug)]
pub(crate) struct RecordFormats {
    pub value: Part,
    pub key: Option<Part>,
}

/// A record's key or its value.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub format: RecordFormat,
    /// Columns of the table that it holds.
    pub columns: Vec<usize>,
}

impl RecordFormats {
    pub(crate) fn read(
        options: &OptionReader<'_>,
        direction: Direction,
    ) -> Result<RecordFormats, OptionError> {
        let fields = options.table().schema.fields();
        let is_stored = |&column: &usize| {
            let field = &fields[column];
            MetadataKey::of(field).is_none() && FieldColumn::way(field).is_none() && !SplitColumn::is(field)
        };
        let stored: Vec<usize> = (0..fields.len()).filter(is_stored).collect();

        let key_columns = key_columns(options, &stored)?;
        let prefix = options.text("key.fields-prefix").unwrap_or("");
        let fields_include = [("ALL", true), ("EXCEPT_KEY", false)];
        let with_key = options.choice("value.fields-include", &fields_include)?.unwrap_or(true);
        if !prefix.is_empty() {
            if with_key {
                let message =
                    "needs 'value.fields-include' = 'EXCEPT_KEY': the value would have the prefix too";
                return Err(options.error("key.fields-prefix", message));
            }
            let other = key_columns.iter().find(|&&column| !fields[column].name().starts_with(prefix));
            if let Some(&other) = other {
                let message =
                    format!("'{}' of 'key.fields' does not begin with '{prefix}'", fields[other].name());
                return Err(options.error("key.fields-prefix", message));
            }
        }
        let in_value = |column: &usize| with_key || !key_columns.contains(column);
        let value_columns: Vec<usize> = stored.iter().copied().filter(in_value).collect();
        if value_columns.is_empty() {
            let message = "leaves no column for the value; all are in 'key.fields'";
            return Err(options.error("value.fields-include", message));
        }
        let value_options = match (options.text("format"), options.text("value.format")) {
            (Some(_), Some(_)) => {
                return Err(options.error("value.format", "the same as 'format'; leave one of them out"));
            }
            (None, Some(_)) => options.scoped("value."),
            _ => options.clone(),
        };
        let schema = part_schema(options, &value_columns, "");
        let value = Part {
            format: RecordFormat::read(&value_options, "format", &schema, direction)?,
            columns: value_columns,
        };
        let key = match options.text("key.format") {
            None if !key_columns.is_empty() => {
                return Err(options.error("key.format", "missing; 'key.fields' are read with it"));
            }
            None => None,
            Some(_) if key_columns.is_empty() => {
                return Err(options.error("key.fields", "missing; 'key.format' is for them"));
            }
            Some(_) => {
                let schema = part_schema(options, &key_columns, prefix);
                let format = RecordFormat::read(&options.scoped("key."), "format", &schema, direction)?;
                Some(Part { format, columns: key_columns })
            }
        };
        Ok(RecordFormats { value, key })
    }

    /// `ignore-parse-errors` of either says that the first bad record ends the scan.
    pub(crate) fn tolerates_none(&self) -> bool {
        let parts = std::iter::once(&self.value).chain(&self.key);
        parts.into_iter().any(|part| part.format.ignore_parse_errors() == Some(false))
    }
}

fn key_columns(options: &OptionReader<'_>, stored: &[usize]) -> Result<Vec<usize>, OptionError> {
    let key = "key.fields";
    let schema = &options.table().schema;
    let mut columns = Vec::new();
    let names = options.text(key).unwrap_or("").split(';').map(str::trim).filter(|name| !name.is_empty());
    for name in names {
        let found = schema.index_of(name).ok().filter(|column| stored.contains(column));
        let Some(column) = found else {
            let names: Vec<&str> =
                stored.iter().map(|column| schema.field(*column).name().as_str()).collect();
            return Err(
                options.error(key, format!("no column '{name}'; the records have {}", names.join(", ")))
            );
        };
        if columns.contains(&column) {
            return Err(options.error(key, format!("column '{name}' is named twice")));
        }
        columns.push(column);
    }
    columns.sort_unstable();
    Ok(columns)
}

fn part_schema(options: &OptionReader<'_>, columns: &[usize], prefix: &str) -> SchemaRef {
    let fields = &options.table().schema.fields();
    let named = |column: &usize| -> Field {
        let field = fields[*column].as_ref().clone();
        let name = field.name().strip_prefix(prefix).unwrap_or(field.name()).to_owned();
        field.with_name(name)
    };
    Arc::new(Schema::new(columns.iter().map(named).collect::<Vec<_>>()))
}
