-- A job that must stay fast, and has some work to do: it signs how often and how hot each sensor was heard of. The last two
-- columns are when a row was behind the source and when before the sink: their difference is its latency.
SET 'pipeline.name' = 'alarms';
SET 'parallelism.default' = '1';
SET 'pipeline.operator-chaining.enabled' = 'false';
-- Rows go on at once instead of when a buffer is full or 100 ms old.
SET 'execution.buffer-timeout.interval' = '5 ms';

CREATE TABLE readings (
  sensor INT,
  degrees DOUBLE
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '500',
  'fields.sensor.min' = '1',
  'fields.sensor.max' = '100',
  'fields.degrees.min' = '0',
  'fields.degrees.max' = '100'
);

CREATE TABLE alarms (sensor INT, heard BIGINT, signature STRING, seen TIMESTAMP(3), done TIMESTAMP(3))
WITH ('connector' = 'print', 'print-identifier' = 'latency');

INSERT INTO alarms
SELECT sensor, heard, SHA256(REPEAT(CAST(hottest AS STRING), 2000)), newest, LOCALTIMESTAMP
FROM (
  SELECT sensor, COUNT(*) AS heard, MAX(degrees) AS hottest, MAX(seen) AS newest
  FROM (SELECT sensor, degrees, LOCALTIMESTAMP AS seen FROM readings)
  GROUP BY sensor
);
