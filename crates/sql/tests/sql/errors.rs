use laxity_sql::{SqlFile, compile};

use crate::golden;

/// Tables that the cases may use; errors are placed in a second file.
pub const TABLES: &str = "
CREATE TABLE flights (
  carrier STRING, dest STRING, delay INT, price DECIMAL(10, 2), ok BOOLEAN,
  ts TIMESTAMP(3), p AS PROCTIME(), late AS delay > 15,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'flights.csv', 'format' = 'csv');
CREATE TABLE bids (
  k STRING, amount BIGINT, t TIMESTAMP(3), plain TIMESTAMP(3),
  WATERMARK FOR t AS t - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'bids.csv', 'format' = 'csv');
CREATE TABLE sink (carrier STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE late_flights (carrier STRING, delay INT, window_end TIMESTAMP(3)) WITH ('connector' = 'print');
CREATE VIEW delayed AS SELECT * FROM flights WHERE delay > 15;
CREATE VIEW hourly AS SELECT carrier, window_start, window_end, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY carrier, window_start, window_end;
";

pub fn files(sql: &str) -> [SqlFile; 2] {
    let file = |path: &str, text: &str| SqlFile { path: path.into(), text: text.into() };
    [file("tables.sql", TABLES), file("q.sql", sql)]
}

#[test]
fn mistakes_are_told_with_their_place() {
    golden::check("errors.txt", |sql| match compile(&files(sql)) {
        Ok(_) => "no error".into(),
        Err(error) => error.to_string(),
    });
}
