-- Every type, with its edges: what the expressions of expressions.tsv are computed over.
CREATE TABLE v (
  id INT,
  ti TINYINT, si SMALLINT, i INT, l BIGINT,
  f FLOAT, d DOUBLE,
  dc DECIMAL(10, 2), db DECIMAL(38, 10),
  s STRING, u STRING, c CHAR(5), vc VARCHAR(8),
  b BOOLEAN,
  dt DATE, tm TIME, ts TIMESTAMP(3), t6 TIMESTAMP(6), lz TIMESTAMP_LTZ(3),
  ai ARRAY<INT>, sa ARRAY<STRING>, m MAP<STRING, INT>, r ROW<x INT, y STRING>
) WITH ('connector' = 'filesystem', 'path' = 'DATA/values.jsonl', 'format' = 'json');
