//! CREATE TABLE: what is stored, what is computed from it, which column the watermark follows, and what an INSERT writes.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{Expr as SqlExpr, Ident};
use datafusion_sql::sqlparser::tokenizer::Location;
use laxity_connect::{Connector, FieldColumn, PartitionColumn, PrimaryKey, SplitColumn, TableSpec};

use super::{Done, unknown_column};
use crate::alike::Alike;
use crate::catalog::{Table, TableColumn};
use crate::data_type::{CharLength, FlinkType, display, processing_time};
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::planning::Planner;
use crate::statement::{Column, ColumnKind, CreateTable, Watermark};

/// The table that a statement of the `file` declares. Paths in its options are relative to `folder`.
pub(super) fn declared(
    create: &CreateTable,
    planner: &Planner,
    alike: &Alike,
    folder: PathBuf,
    file: usize,
) -> Done<Table> {
    let expression = |expr: &SqlExpr, columns: &SchemaRef| {
        alike.expression(expr, columns, || planner.expression(expr, columns))
    };
    refuse_repeated(&create.columns)?;
    let (stored, written_metadata) = stored_columns(create)?;
    let (schema, columns) = all_columns(create, &stored, expression)?;
    let stored = with_others(create, &stored);
    for key in &create.primary_key {
        schema.index_of(&key.value).map_err(|_| unknown_column(key, &schema))?;
    }
    let watermark = match &create.watermark {
        Some(watermark) => Some(watermark_over(watermark, &schema, expression)?),
        None => None,
    };
    let options = create.options.entries.iter().map(|(key, option)| (key.clone(), option.value.clone()));
    let spec = Arc::new(TableSpec {
        name: create.name.value.clone(),
        schema: stored,
        options: options.collect(),
        base: folder,
    });
    let (sink, lengths) = written_columns(create, &spec)?;
    Ok(Table {
        spec,
        sink,
        written_metadata,
        schema,
        columns,
        lengths,
        watermark,
        options: create.options.clone(),
        file,
    })
}

fn refuse_repeated(columns: &[Column]) -> Done<()> {
    for (place, column) in columns.iter().enumerate() {
        if columns[..place].iter().any(|earlier| earlier.name.value == column.name.value) {
            return Err(Fault::new(
                SqlErrorKind::Invalid,
                column.name.span.start,
                format!("column '{}' is declared twice", column.name.value),
            ));
        }
    }
    Ok(())
}

/// What the connector gives as SQL names it: the physical columns, then those of METADATA. With it the place of a METADATA column
/// that a sink would have to write.
fn stored_columns(create: &CreateTable) -> Done<(SchemaRef, Option<Location>)> {
    let mut stored = Vec::new();
    let mut metadata = Vec::new();
    let mut written_metadata = None;
    for column in &create.columns {
        match &column.kind {
            ColumnKind::Physical(flink) => {
                stored.push(Field::new(&column.name.value, flink.data_type.clone(), flink.nullable));
            }
            ColumnKind::Computed(_) => {}
            ColumnKind::Metadata { data_type, key, is_virtual, at } => {
                let (field, is_written) = metadata_field(create, &column.name, data_type, key, *at)?;
                metadata.push(field);
                written_metadata = written_metadata.or((!is_virtual && !is_written).then_some(*at));
            }
        }
    }
    if let (true, Some(ColumnKind::Metadata { at, .. })) =
        (stored.is_empty(), create.columns.first().map(|column| &column.kind))
    {
        let message = "a table has a column besides those of METADATA";
        return Err(Fault::new(SqlErrorKind::Invalid, *at, message));
    }
    mark_partitions(create, &mut stored)?;
    mark_primary_key(create, &mut stored);
    stored.append(&mut metadata);
    Ok((Arc::new(Schema::new(stored)), written_metadata))
}

/// All that the connector gives: behind the columns that SQL names the fields of ROWs among them, then where in the source a row
/// stood if the watermark needs that.
fn with_others(create: &CreateTable, named: &SchemaRef) -> SchemaRef {
    let Some(connector) = connector_of(create) else { return Arc::clone(named) };
    let mut stored: Vec<Field> = named.fields().iter().map(|field| field.as_ref().clone()).collect();
    if connector.reads_fields() {
        let taken = create.columns.iter().map(|column| column.name.value.as_str()).collect();
        stored.extend(FieldColumn::of_all(&stored, &taken));
    }
    if create.watermark.is_some() && connector.has_splits() {
        stored.push(SplitColumn::field());
    }
    match stored.len() == named.fields().len() {
        true => Arc::clone(named),
        false => Arc::new(Schema::new(stored)),
    }
}

/// All columns as they are declared, and where each comes from.
fn all_columns(
    create: &CreateTable,
    stored: &SchemaRef,
    expression: impl Fn(&SqlExpr, &SchemaRef) -> Done<Expr>,
) -> Done<(SchemaRef, Vec<TableColumn>)> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for Column { name, kind } in &create.columns {
        let (column, data_type, nullable) = match kind {
            // A source's NOT NULL is checked where rows are decoded.
            ColumnKind::Physical(flink) | ColumnKind::Metadata { data_type: flink, .. } => {
                let index = stored.index_of(&name.value).map_err(|e| Fault::internal(NOWHERE, e))?;
                (TableColumn::Physical(index), flink.data_type.clone(), flink.nullable)
            }
            ColumnKind::Computed(expr) if is_proctime(expr) => {
                (TableColumn::ProcessingTime, processing_time(), false)
            }
            ColumnKind::Computed(expr) => {
                let planned = expression(expr, stored)?;
                let data_type = type_of(&planned, stored)?;
                (TableColumn::Computed(planned), data_type, true)
            }
        };
        columns.push(column);
        fields.push(Field::new(&name.value, data_type, nullable));
    }
    Ok((Arc::new(Schema::new(fields)), columns))
}

/// The column that the watermark follows, and the expression of that column's type.
fn watermark_over(
    watermark: &Watermark,
    schema: &SchemaRef,
    expression: impl Fn(&SqlExpr, &SchemaRef) -> Done<Expr>,
) -> Done<(usize, Expr)> {
    let name = &watermark.column;
    let column = schema.index_of(&name.value).map_err(|_| unknown_column(name, schema))?;
    let wanted = schema.field(column).data_type();
    check_time_attribute(name, wanted)?;
    let expr = expression(&watermark.expr, schema)?;
    let given = type_of(&expr, schema)?;
    if !matches!(given, DataType::Timestamp(..) | DataType::Null) {
        let message = format!("the watermark must be {}, not {}", display(wanted), display(&given));
        return Err(Fault::new(SqlErrorKind::Type, watermark.at, message)
            .hint(format!("write {} - INTERVAL '5' SECOND", name.value)));
    }
    let is_wanted = given.equals_datatype(wanted);
    let expr = if is_wanted { expr } else { datafusion_expr::cast(expr, wanted.clone()) };
    Ok((column, expr))
}

/// The table as an INSERT fills it, without virtual columns, and the lengths of its texts.
fn written_columns(
    create: &CreateTable,
    spec: &Arc<TableSpec>,
) -> Done<(Arc<TableSpec>, Vec<Option<CharLength>>)> {
    let (mut written, mut lengths) = (Vec::new(), Vec::new());
    for column in &create.columns {
        let length = match &column.kind {
            ColumnKind::Physical(flink) => flink.length,
            ColumnKind::Metadata { is_virtual: false, .. } => None,
            ColumnKind::Metadata { .. } | ColumnKind::Computed(_) => continue,
        };
        written.push(spec.schema.index_of(&column.name.value).map_err(|e| Fault::internal(NOWHERE, e))?);
        lengths.push(length);
    }
    if written.iter().copied().eq(0..spec.schema.fields().len()) {
        return Ok((Arc::clone(spec), lengths));
    }
    let schema = spec.schema.project(&written).map_err(|e| Fault::internal(NOWHERE, e))?;
    Ok((Arc::new(TableSpec { schema: Arc::new(schema), ..spec.as_ref().clone() }), lengths))
}

fn connector_of(create: &CreateTable) -> Option<&'static dyn Connector> {
    laxity_connect::connector(&create.options.entries.get("connector")?.value)
}

/// A column `… METADATA FROM 'file.path'`, and whether a table that is written takes it.
fn metadata_field(
    create: &CreateTable,
    name: &Ident,
    data_type: &FlinkType,
    key: &str,
    at: Location,
) -> Done<(Field, bool)> {
    let connector = create.options.entries.get("connector").map_or("", |option| option.value.as_str());
    let fault = |message: String| Fault::new(SqlErrorKind::Invalid, at, message);
    let keys = connector_of(create).map_or(&[][..], |connector| connector.metadata());
    if keys.is_empty() {
        return Err(fault(format!("connector '{connector}' has no METADATA columns; 'filesystem' has")));
    }
    let Some(metadata) = keys.iter().find(|metadata| metadata.key == key) else {
        let keys: Vec<String> = keys.iter().map(|metadata| format!("'{}'", metadata.key)).collect();
        return Err(fault(format!("connector '{connector}' has no metadata '{key}'"))
            .hint(format!("METADATA FROM takes {}", keys.join(", "))));
    };
    if !(metadata.fits)(&data_type.data_type) {
        let given = display(&data_type.data_type);
        let message = format!("'{key}' is {}, which is not read as {given}", metadata.sql_type);
        return Err(fault(message).hint("declare it so, and CAST it in the query"));
    }
    let field = metadata.field(&name.value, data_type.data_type.clone(), data_type.nullable);
    Ok((field, metadata.is_written))
}

/// Marks the columns of PARTITIONED BY.
fn mark_partitions(create: &CreateTable, physical: &mut [Field]) -> Done<()> {
    let connector = create.options.entries.get("connector").map_or("", |option| option.value.as_str());
    for (place, name) in create.partitioned_by.iter().enumerate() {
        let fault = |message: String| Fault::new(SqlErrorKind::Invalid, name.span.start, message);
        if connector != "filesystem" {
            return Err(fault(format!(
                "a table of connector '{connector}' has no partitions; 'filesystem' has"
            )));
        }
        if create.partitioned_by[..place].contains(name) {
            return Err(fault(format!("column '{}' is named twice in PARTITIONED BY", name.value)));
        }
        let found = physical.iter_mut().find(|field| *field.name() == name.value);
        let Some(field) = found else {
            let is_other = create.columns.iter().any(|column| column.name.value == name.value);
            return Err(match is_other {
                true => fault(format!("column '{}' is not stored, and names no folder", name.value)),
                false => fault(format!("unknown column '{}'", name.value)),
            });
        };
        if !PartitionColumn::fits(field.data_type()) {
            let message =
                format!("column '{}' is {}, which names no folder", name.value, display(field.data_type()));
            return Err(fault(message)
                .hint("partition by a STRING, BOOLEAN, whole number, DECIMAL, DATE or TIMESTAMP"));
        }
        *field = PartitionColumn::mark(field.clone(), place);
    }
    match create.partitioned_by.first() {
        Some(first) if create.partitioned_by.len() == physical.len() => Err(Fault::new(
            SqlErrorKind::Invalid,
            first.span.start,
            "a column besides those of PARTITIONED BY is needed: they are in no file",
        )),
        _ => Ok(()),
    }
}

/// Marks the stored columns of PRIMARY KEY, for connectors that write by key. That all are columns is checked where they
/// are all known.
fn mark_primary_key(create: &CreateTable, physical: &mut [Field]) {
    for (place, name) in create.primary_key.iter().enumerate() {
        if let Some(field) = physical.iter_mut().find(|field| *field.name() == name.value) {
            *field = PrimaryKey::mark(field.clone(), place);
        }
    }
}

fn check_time_attribute(name: &Ident, data_type: &DataType) -> Done<()> {
    if matches!(data_type, DataType::Timestamp(TimeUnit::Millisecond, _)) {
        return Ok(());
    }
    Err(Fault::new(
        SqlErrorKind::Type,
        name.span.start,
        format!(
            "an event-time column must be TIMESTAMP(3) or TIMESTAMP_LTZ(3), but '{}' is {}",
            name.value,
            display(data_type)
        ),
    )
    .hint("compute one: ts AS TO_TIMESTAMP(text) or ts AS TO_TIMESTAMP_LTZ(millis, 3)"))
}

fn is_proctime(expr: &SqlExpr) -> bool {
    matches!(expr, SqlExpr::Function(function) if function.name.to_string().eq_ignore_ascii_case("proctime"))
}

fn type_of(expr: &Expr, schema: &SchemaRef) -> Done<DataType> {
    use datafusion_expr::ExprSchemable;
    let schema = crate::lower::df_schema(schema)?;
    expr.get_type(&schema).map_err(|error| Fault::internal(NOWHERE, error))
}
