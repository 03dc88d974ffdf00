-- A job that takes every core it gets: hashes made-up rows as fast as they come.
SET 'pipeline.name' = 'archive';
SET 'parallelism.default' = '3';
SET 'pipeline.operator-chaining.enabled' = 'false';

CREATE TABLE readings (
  sensor INT,
  degrees DOUBLE,
  seen AS LOCALTIMESTAMP,
  WATERMARK FOR seen AS seen
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '100000000',
  'fields.sensor.min' = '1',
  'fields.sensor.max' = '100'
);

CREATE TABLE hashes (sensor INT, ends TIMESTAMP(3), digest STRING) WITH ('connector' = 'blackhole');

INSERT INTO hashes
SELECT sensor, window_end, MAX(SHA256(CONCAT(CAST(degrees AS STRING), CAST(sensor AS STRING))))
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(seen), INTERVAL '1' SECOND))
GROUP BY sensor, window_start, window_end;
