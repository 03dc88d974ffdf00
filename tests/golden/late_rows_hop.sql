-- A row that comes too late for its first window still counts in those that are open; it is late, and dropped, only
-- when all its windows have fired.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '30' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE sliding (window_end TIMESTAMP(3), departures BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/sliding.csv', 'format' = 'csv');

SET 'pipeline.name' = 'sliding';
INSERT INTO sliding
SELECT window_end, COUNT(*)
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR, INTERVAL '3' HOUR))
GROUP BY window_start, window_end;
