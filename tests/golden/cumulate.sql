-- Departures of a quarter of a day so far, told every hour.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE so_far (window_start TIMESTAMP(3), window_end TIMESTAMP(3), departures BIGINT, miles BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/so_far.csv', 'format' = 'csv');

INSERT INTO so_far
SELECT window_start, window_end, COUNT(*), SUM(distance_mi)
FROM TABLE(CUMULATE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR, INTERVAL '6' HOUR))
GROUP BY window_start, window_end;
