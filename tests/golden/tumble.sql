-- An hour's departures by airport. AVG of an INT is an INT, truncated towards zero, as in Flink.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE hourly (window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP(3), origin STRING, departures BIGINT, miles BIGINT, mean_delay INT, min_delay INT, max_delay INT)
WITH ('connector' = 'filesystem', 'path' = 'out/hourly.csv', 'format' = 'csv');

INSERT INTO hourly
SELECT window_start, window_end, window_time, origin,
       COUNT(*), SUM(distance_mi), AVG(dep_delay_min), MIN(dep_delay_min), MAX(dep_delay_min)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, window_time, origin;
