-- A year of departures from New York, day by day and airport by airport, from a part of them: each day answers at midnight
-- and not when all who are late must have left, within 5 % in 95 of 100 cases, and says how sure it is.
-- laxity run examples/approximate.sql                   what was saved stands in the last lines, and in --report FILE
-- laxity run --verify-approx examples/approximate.sql   also holds every answer against the exact one

CREATE TABLE departures (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3),            -- when it left, when it should have
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, dep_delay_min INT,
  arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '6' HOUR    -- how long an exact answer waits
) WITH ('connector' = 'filesystem', 'path' = 'data/departures.csv.gz', 'format' = 'csv', 'csv.header' = 'true',
  -- The year in two minutes, each departure ten times: of 300 a day hardly any could be left out.
  'laxity.replay.time-column' = 'ingest_ts', 'laxity.replay.speed' = '300000', 'laxity.replay.copies' = '10');

SET 'pipeline.name' = 'miles by day';
SET 'laxity.latency.target' = '1 s';
SET 'laxity.approximate.error' = '5%';
SET 'laxity.approximate.confidence' = '95%';

SELECT window_start, origin,
       COUNT(*) AS departures,
       ROUND(SUM(CAST(distance_mi AS DOUBLE)), 0) AS miles,
       ROUND(APPROX_ERROR(SUM(CAST(distance_mi AS DOUBLE))), 3) AS miles_error,
       ROUND(AVG(CAST(distance_mi AS DOUBLE)), 0) AS mean_miles,
       APPROX_ROWS() AS sampled, APPROX_SEEN() AS seen
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(event_ts), INTERVAL '1' DAY, INTERVAL '5' HOUR))   -- days of New York
GROUP BY window_start, window_end, origin;
