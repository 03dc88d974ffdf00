-- Views on views, and a common table expression.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE west (window_end TIMESTAMP(3), dest STRING, departures BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/west.csv', 'format' = 'csv');

CREATE VIEW long_haul AS SELECT * FROM flights WHERE distance_mi > 2000;
CREATE TEMPORARY VIEW californian AS SELECT event_ts, dest FROM long_haul WHERE dest IN ('LAX', 'SFO', 'SAN', 'SJC', 'OAK');

INSERT INTO west
WITH windowed AS (
  SELECT window_start, window_end, dest
  FROM TABLE(TUMBLE(TABLE californian, DESCRIPTOR(event_ts), INTERVAL '2' HOUR))
)
SELECT window_end, dest, COUNT(*) FROM windowed GROUP BY window_start, window_end, dest;
