-- Three hours of departures by carrier, every hour: each row is in three windows.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE sliding (window_start TIMESTAMP(3), window_end TIMESTAMP(3), carrier STRING, departures BIGINT, worst INT)
WITH ('connector' = 'filesystem', 'path' = 'out/sliding.csv', 'format' = 'csv');

INSERT INTO sliding
SELECT window_start, window_end, carrier, COUNT(*), MAX(dep_delay_min)
FROM TABLE(HOP(DATA => TABLE flights, TIMECOL => DESCRIPTOR(event_ts), SLIDE => INTERVAL '1' HOUR, SIZE => INTERVAL '3' HOUR))
GROUP BY window_start, window_end, carrier;
