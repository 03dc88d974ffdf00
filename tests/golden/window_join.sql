-- The hour's departures beside the hour's weather at the same airport, and the hours that lack one of them.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE weather (
  observed_at TIMESTAMP(3), origin STRING, temp_f DOUBLE, wind_mph DOUBLE, gust_mph DOUBLE,
  WATERMARK FOR observed_at AS observed_at - INTERVAL '1' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/weather.csv', 'format' = 'csv', 'csv.header' = 'true',
        'csv.null-literal' = 'NA');
CREATE TABLE beside (window_end TIMESTAMP(3), origin STRING, departures BIGINT, temp_f DOUBLE, gust_mph DOUBLE)
WITH ('connector' = 'filesystem', 'path' = 'out/beside.csv', 'format' = 'csv');

INSERT INTO beside
SELECT COALESCE(f.window_end, w.window_end), COALESCE(f.origin, w.origin), f.departures, w.temp_f, w.gust_mph
FROM (
  SELECT window_start, window_end, origin, COUNT(*) AS departures
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
  GROUP BY window_start, window_end, origin
) f
FULL JOIN (
  SELECT * FROM TABLE(TUMBLE(TABLE weather, DESCRIPTOR(observed_at), INTERVAL '1' HOUR))
) w
ON f.window_start = w.window_start AND f.window_end = w.window_end AND f.origin = w.origin;
