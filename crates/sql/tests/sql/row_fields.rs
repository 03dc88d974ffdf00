//! Tables that read fields of ROWs alone give the same results as tables that read all of them, and read no more than is asked
//! for. Cannot catch: what a format makes of fields that it passes over.

use std::sync::{Arc, Once};

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Fields, Schema};
use laxity_connect::{
    ConnectError, Connector, FieldColumn, OptionError, OptionReader, Scan, ScanEnvironment, ScanEvent,
    ScanSpec, ScannedBatch, SourceConnector, TableSpec, register,
};
use laxity_graph::ProcessingTime;
use laxity_operators::Stage;
use laxity_sql::{PlannedQuery, SqlFile, compile};

use crate::driver;

/// Six rows, by fields or whole.
struct Rows {
    name: &'static str,
    fields: bool,
}

static BY_FIELDS: Rows = Rows { name: "rows-by-fields", fields: true };
static WHOLE: Rows = Rows { name: "rows-whole", fields: false };

impl Connector for Rows {
    fn name(&self) -> &'static str {
        self.name
    }

    fn source(&self) -> Option<&dyn SourceConnector> {
        Some(self)
    }

    fn reads_fields(&self) -> bool {
        self.fields
    }
}

impl SourceConnector for Rows {
    fn validate(&self, _: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        options.finish()
    }

    fn open(
        &self,
        spec: &ScanSpec,
        _: &ScanEnvironment,
        _: &OptionReader<'_>,
    ) -> Result<Box<dyn Scan>, ConnectError> {
        let schema = &spec.table.schema;
        let columns = spec.columns.iter().map(|&column| {
            let (of, way) = FieldColumn::way(schema.field(column)).unwrap_or((column, Vec::new()));
            let whole = column_of(schema.field(of).name(), schema.field(of).data_type());
            way.iter().fold(whole, |row, &field| field_of(&row, field))
        });
        let rows = RecordBatch::try_new(Arc::new(schema.project(&spec.columns).unwrap()), columns.collect());
        Ok(Box::new(Given(Some(rows.unwrap()))))
    }

    fn is_bounded(&self, _: &TableSpec) -> bool {
        true
    }
}

struct Given(Option<RecordBatch>);

impl Scan for Given {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        Ok(self.0.take().map_or(ScanEvent::End, |rows| ScanEvent::Batch(ScannedBatch { rows, arrival: now })))
    }
}

fn field_of(row: &ArrayRef, field: usize) -> ArrayRef {
    let row = row.as_struct();
    let rows = (0..row.len()).map(|index| row.is_valid(index).then_some(index as u32));
    arrow::compute::take(row.column(field), &arrow::array::UInt32Array::from_iter(rows), None).unwrap()
}

/// The values of a column or a field by its name. Rows are NULL now and then.
fn column_of(name: &str, data_type: &DataType) -> ArrayRef {
    match (name, data_type) {
        ("id", _) => Arc::new(Int64Array::from_iter_values(0..6)),
        ("x", _) => Arc::new(Int64Array::from(vec![Some(4), None, Some(-2), Some(7), Some(0), Some(4)])),
        ("y", _) => Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None, Some(5), Some(6)])),
        ("v", _) => Arc::new(Int64Array::from_iter_values(10..16)),
        ("s" | "z", _) => {
            Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("d"), Some("e"), Some("")]))
        }
        ("t", DataType::Timestamp(..)) => {
            Arc::new(TimestampMillisecondArray::from_iter_values((0..6).map(|row| row * 700)))
        }
        (_, DataType::Struct(fields)) => row_of(name, fields),
        other => unreachable!("{other:?}"),
    }
}

/// As decoders make it: of a row that is NULL, each field is.
fn row_of(name: &str, fields: &Fields) -> ArrayRef {
    let columns = fields.iter().map(|field| column_of(field.name(), field.data_type())).collect();
    let nulls = match name {
        "r" => Some(NullBuffer::from(vec![true, true, true, true, false, true])),
        "deep" => Some(NullBuffer::from(vec![true, false, true, true, true, true])),
        _ => None,
    };
    let row: ArrayRef = Arc::new(StructArray::new(fields.clone(), columns, nulls.clone()));
    let columns = (0..fields.len()).map(|field| field_of(&row, field)).collect();
    Arc::new(StructArray::new(fields.clone(), columns, nulls))
}

fn queries(connector: &str, sql: &str) -> Vec<PlannedQuery> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        register(&BY_FIELDS);
        register(&WHOLE);
    });
    let table = format!(
        "CREATE TABLE t (id BIGINT, r ROW<x BIGINT, s STRING, deep ROW<y BIGINT, z STRING>>,
           n ROW<v BIGINT NOT NULL, t TIMESTAMP(3) NOT NULL> NOT NULL, ts AS n.t, up AS r.deep.y + 1,
           WATERMARK FOR ts AS ts) WITH ('connector' = '{connector}');\n"
    );
    compile(&[SqlFile { path: "q.sql".into(), text: table + sql }])
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
        .queries
}

/// Names of the columns that each source reads.
fn read(query: &PlannedQuery) -> Vec<String> {
    let sources = query.dataflow.nodes().iter().filter_map(|node| match &node.stage {
        Stage::Source { scan, .. } => Some(scan),
        _ => None,
    });
    let names = |schema: &Schema, columns: &[usize]| {
        columns.iter().map(|&column| schema.field(column).name().clone()).collect::<Vec<_>>().join(" ")
    };
    sources.map(|scan| names(&scan.table.schema, &scan.columns)).collect()
}

#[test]
fn a_field_alone_is_the_same_as_a_field_of_its_row() {
    let of_view = "CREATE VIEW w AS SELECT id, r, n.v AS v, ts FROM t WHERE r.x IS NOT NULL;\n";
    // Each with what is read for it, besides the time that its watermark follows.
    for (sql, columns) in [
        ("SELECT id, r.x FROM t", "id r.x n.t"),
        ("SELECT id FROM t WHERE r.deep.y > 1 OR r.s = 'e'", "id r.s r.deep.y n.t"),
        ("SELECT r.x + n.v, r.x * 2, r.x FROM t WHERE r.x >= 0 AND n.v < 15", "r.x n.v n.t"),
        // What two expressions have in common is a projection of its own.
        ("SELECT UPPER(r.deep.z) || 'x', UPPER(r.deep.z) || 'y', r.deep.y FROM t", "r.deep.y r.deep.z n.t"),
        ("SELECT up, n.v FROM t", "r.deep.y n.v n.t"),
        (
            "SELECT d.r.s, d.id FROM (SELECT * FROM t) AS d WHERE d.r.deep.y IS NOT NULL",
            "id r.s r.deep.y n.t",
        ),
        ("SELECT w.r.deep.z, v FROM w WHERE w.r.s <> 'a'", "r.x r.s r.deep.z n.v n.t"),
        ("SELECT r.deep FROM t", "r.deep n.t"),
        ("SELECT r.deep, r.deep.z FROM t", "r.deep r.deep.z n.t"),
        // The row itself is wanted, too.
        ("SELECT r, r.x FROM t", "r n.t"),
        ("SELECT r.x FROM t WHERE r IS NOT NULL", "r n.t"),
        // Behind a window function rows are whole.
        (
            "SELECT window_end, SUM(r.x) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))
             GROUP BY window_start, window_end",
            "r n.t",
        ),
        ("SELECT r.x FROM t UNION ALL SELECT n.v FROM t", "r.x n.t|n.v n.t"),
    ] {
        let sql = format!("{of_view}{sql};");
        let [by_fields, whole] = [BY_FIELDS.name, WHOLE.name].map(|connector| queries(connector, &sql));
        let [by_fields, whole] = [&by_fields[0], &whole[0]];
        assert_eq!(read(by_fields).join("|"), columns, "{sql}");
        assert!(read(whole).iter().all(|columns| !columns.contains('.')), "{sql}");
        // What one has saved, the other goes on from; but for rows that a projection hands to another, which has fields instead.
        if !sql.contains("UPPER") && !sql.contains("FROM w") {
            assert_eq!(by_fields.shape, whole.shape, "{sql}");
        }
        let cells = driver::run_cells(by_fields);
        assert!(!cells.is_empty(), "{sql}");
        assert_eq!(cells, driver::run_cells(whole), "{sql}");
    }
}

#[test]
fn a_field_is_null_where_its_row_is() {
    let sql = "CREATE VIEW w AS SELECT id, CASE WHEN id > 3 THEN n END AS q FROM t;
               SELECT id, q.v, q.v + 1, q.v IS NULL FROM w WHERE id > 2; SELECT w.q.t FROM w WHERE w.q.v IS NULL;";
    for connector in [BY_FIELDS.name, WHOLE.name] {
        let queries = queries(connector, sql);
        let cells = driver::run_cells(&queries[0]);
        let row = |cells: &[Option<String>]| {
            cells.iter().map(|c| c.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(",")
        };
        let rows: Vec<String> = cells.iter().map(|cells| row(cells)).collect();
        assert_eq!(rows, ["3,-,-,true", "4,14,15,false", "5,15,16,false"], "{connector}");
        assert_eq!(driver::run_cells(&queries[1]), vec![[None]; 4], "{connector}");
    }
}

#[test]
fn no_sql_names_a_field_s_column() {
    let named = compile(&[SqlFile {
        path: "q.sql".into(),
        text: "CREATE TABLE t (r ROW<x BIGINT>) WITH ('connector' = 'rows-by-fields'); SELECT `r.x` FROM t;"
            .into(),
    }]);
    let error = named.expect_err("there is no such column").to_string();
    assert!(error.contains("r.x"), "{error}");
    // A column of that name stays what it is.
    let both = queries(
        BY_FIELDS.name,
        "CREATE VIEW u AS SELECT id AS `r.x`, r FROM t; SELECT u.r.x, u.`r.x` FROM u;",
    );
    assert_eq!(read(&both[0]), ["id r.x n.t"]);
    assert_eq!(driver::run_cells(&both[0])[1], [None, Some("1".to_owned())]);
}

#[test]
fn several_queries_read_the_same_columns() {
    let read_by = |sql: &str| {
        queries(BY_FIELDS.name, sql).iter().map(|query| read(query).join("|")).collect::<Vec<_>>()
    };
    assert_eq!(read_by("SELECT r.x FROM t; SELECT r.s FROM t WHERE n.v > 1;"), ["r n", "r n"]);
    assert_eq!(read_by("SELECT r.x FROM t; EXPLAIN SELECT r.s FROM t;"), ["r.x n.t"]);
    // Each is alone with its own, until a third comes.
    let other = "CREATE TABLE o (q ROW<x BIGINT, y BIGINT>) WITH ('connector' = 'rows-by-fields');\n";
    assert_eq!(read_by(&format!("{other}SELECT r.x FROM t; SELECT q.x FROM o;")), ["r.x n.t", "q.x"]);
    let third = format!("{other}SELECT r.x FROM t; SELECT q.x FROM o; SELECT q.y FROM o;");
    assert_eq!(read_by(&third), ["r.x n.t", "q", "q"]);
    // Who comes behind a DROP meets one that reads whole.
    let dropped = format!("{other}SELECT r.x FROM t; DROP TABLE o; SELECT r.s FROM t;");
    assert_eq!(read_by(&dropped), ["r n", "r n"]);
}
