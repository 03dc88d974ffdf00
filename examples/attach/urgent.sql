-- A job that must stay fast: alarms from a thin stream of readings, every second.
SET 'pipeline.name' = 'alarms';
SET 'parallelism.default' = '1';
SET 'pipeline.operator-chaining.enabled' = 'false';

CREATE TABLE readings (
  sensor INT,
  degrees DOUBLE,
  seen AS LOCALTIMESTAMP,
  WATERMARK FOR seen AS seen
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '2000',
  'fields.sensor.min' = '1',
  'fields.sensor.max' = '100',
  'fields.degrees.min' = '0',
  'fields.degrees.max' = '100'
);

CREATE TABLE alarms (sensor INT, ends TIMESTAMP(3), hottest DOUBLE) WITH ('connector' = 'blackhole');

INSERT INTO alarms
SELECT sensor, window_end, MAX(degrees)
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(seen), INTERVAL '1' SECOND))
GROUP BY sensor, window_start, window_end;
