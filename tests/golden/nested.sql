-- Rows and arrays on their way: as keys of windows, at the ends of frames, NULL now and then, and taken apart again.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '30' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE VIEW routes AS
SELECT event_ts, carrier, flight, ARRAY[dep_delay_min, arr_delay_min] AS delays,
  CASE WHEN distance_mi < 1000 THEN CAST(ROW(origin, distance_mi) AS ROW<place STRING, miles BIGINT>) END AS route
FROM flights;
CREATE TABLE by_route (window_end TIMESTAMP(3), place STRING, miles BIGINT, n BIGINT, worst INT, carriers BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/by_route.csv', 'format' = 'csv');
CREATE TABLE ends (flight INT, place STRING, miles BIGINT, has_route BOOLEAN, arr_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = 'out/ends.csv', 'format' = 'csv');

SET 'pipeline.name' = 'nested';
EXECUTE STATEMENT SET BEGIN
INSERT INTO by_route
SELECT window_end, route.place, route.miles, COUNT(*), MAX(delays[1]), COUNT(DISTINCT carrier)
FROM TABLE(HOP(TABLE routes, DESCRIPTOR(event_ts), INTERVAL '1' HOUR, INTERVAL '3' HOUR))
GROUP BY window_start, window_end, route;
INSERT INTO ends
SELECT flight, first_route.place, last_route.miles, last_route IS NOT NULL, last_delays[2]
FROM (
  SELECT flight, FIRST_VALUE(route) OVER w AS first_route, LAST_VALUE(route) OVER w AS last_route,
    LAST_VALUE(delays) OVER w AS last_delays
  FROM routes
  WINDOW w AS (PARTITION BY carrier ORDER BY event_ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)
);
END;
