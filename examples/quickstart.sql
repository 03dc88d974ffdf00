-- A year of departures from New York: how late each airport was, month by month.
-- laxity run examples/quickstart.sql

CREATE TABLE departures (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3),            -- when it left, when it should have
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, dep_delay_min INT,
  arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '6' HOUR    -- wait this long for the late ones
) WITH ('connector' = 'filesystem', 'path' = 'data/departures.csv.gz', 'format' = 'csv', 'csv.header' = 'true');

SET 'pipeline.name' = 'monthly delays';
SET 'laxity.latency.target' = '1 s';

SELECT window_start, origin, COUNT(*) AS departures, AVG(dep_delay_min) AS mean_delay_min,
       COUNT(*) FILTER (WHERE dep_delay_min > 60) AS over_an_hour
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(event_ts), INTERVAL '30' DAY))
GROUP BY window_start, window_end, origin;
