-- Half an hour of patience is too little for some departures: their window has fired, so they are counted
-- as late and kept in a table of their own.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '30' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE hourly (window_end TIMESTAMP(3), origin STRING, departures BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/hourly.csv', 'format' = 'csv');
CREATE TABLE too_late (event_ts TIMESTAMP(3), carrier STRING, flight INT)
WITH ('connector' = 'filesystem', 'path' = 'out/too_late.csv', 'format' = 'csv');

SET 'pipeline.name' = 'hourly';
SET 'laxity.late.table' = 'too_late';
INSERT INTO hourly
SELECT window_end, origin, COUNT(*)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, origin;
