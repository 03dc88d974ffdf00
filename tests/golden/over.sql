-- Each departure beside those before it: of the hour before, the three before, and all of its carrier so far.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '30' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE by_hour (flight INT, origin STRING, n BIGINT, delay INT, mean INT, worst INT, carriers BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/by_hour.csv', 'format' = 'csv');
CREATE TABLE by_rows (flight INT, tailnum STRING, n BIGINT, miles BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/by_rows.csv', 'format' = 'csv');
CREATE TABLE so_far (flight INT, carrier STRING, n BIGINT, best INT, furthest INT)
WITH ('connector' = 'filesystem', 'path' = 'out/so_far.csv', 'format' = 'csv');

SET 'pipeline.name' = 'over';
EXECUTE STATEMENT SET BEGIN
INSERT INTO by_hour
SELECT flight, origin, COUNT(*) OVER w, SUM(dep_delay_min) OVER w, AVG(dep_delay_min) OVER w,
  MAX(dep_delay_min) OVER w, COUNT(DISTINCT carrier) OVER w
FROM flights
WINDOW w AS (PARTITION BY origin ORDER BY event_ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW);
INSERT INTO by_rows
SELECT flight, tailnum, COUNT(tailnum) OVER w, SUM(CAST(distance_mi AS BIGINT)) OVER w
FROM flights
WINDOW w AS (ORDER BY event_ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW);
INSERT INTO so_far
SELECT flight, carrier,
  COUNT(*) OVER (PARTITION BY carrier ORDER BY event_ts),
  MIN(dep_delay_min) OVER (PARTITION BY carrier ORDER BY event_ts),
  MAX(distance_mi) OVER (PARTITION BY carrier ORDER BY event_ts)
FROM flights;
END;
