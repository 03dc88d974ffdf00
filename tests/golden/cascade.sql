-- Counts of half hours added up to three hours, and the busiest half hour among them.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE cascades (window_end TIMESTAMP(3), origin STRING, departures BIGINT, busiest BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/cascades.csv', 'format' = 'csv');

CREATE TEMPORARY VIEW half_hours AS
SELECT window_time AS counted_at, origin, COUNT(*) AS departures
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '30' MINUTE))
GROUP BY window_start, window_end, window_time, origin;

INSERT INTO cascades
SELECT window_end, origin, SUM(departures), MAX(departures)
FROM TABLE(TUMBLE(TABLE half_hours, DESCRIPTOR(counted_at), INTERVAL '3' HOUR))
GROUP BY window_start, window_end, origin;
