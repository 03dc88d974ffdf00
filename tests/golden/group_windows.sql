-- Flink's older spelling of windows, with a WHERE that is asked before, and a mean that is a DECIMAL.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE hourly (start_time TIMESTAMP(3), origin CHAR(3), departures BIGINT, mean_delay DECIMAL(10, 2), flag VARCHAR(4))
WITH ('connector' = 'filesystem', 'path' = 'out/hourly.csv', 'format' = 'csv');

INSERT INTO hourly
SELECT TUMBLE_START(event_ts, INTERVAL '1' HOUR), CAST(origin AS CHAR(3)), COUNT(*),
       CAST(SUM(CAST(dep_delay_min AS DECIMAL(10, 1))) / COUNT(*) AS DECIMAL(10, 2)),
       CASE WHEN AVG(CAST(dep_delay_min AS DOUBLE)) > 0.25 THEN 'delayed' ELSE 'on time' END
FROM flights
WHERE carrier <> 'AA'
GROUP BY origin, TUMBLE(event_ts, INTERVAL '1' HOUR)
HAVING TUMBLE_END(event_ts, INTERVAL '1' HOUR) < TIMESTAMP '2013-01-01 18:00:00';
