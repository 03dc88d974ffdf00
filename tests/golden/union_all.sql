-- Two streams put together, then counted in windows: the watermark is the slower one's.

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
CREATE TABLE activity (window_end TIMESTAMP(3), kind STRING, events BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/activity.csv', 'format' = 'csv');

CREATE TEMPORARY VIEW events AS
SELECT event_ts AS happened_at, 'departure' AS kind FROM flights WHERE origin = 'JFK'
UNION ALL
SELECT observed_at, 'observation' FROM weather WHERE origin = 'JFK';

INSERT INTO activity
SELECT window_end, kind, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(happened_at), INTERVAL '2' HOUR))
GROUP BY window_start, window_end, kind;
