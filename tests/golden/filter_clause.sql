-- Each aggregate with a condition of its own. HAVING drops quiet hours.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE punctuality (window_end TIMESTAMP(3), late BIGINT, early BIGINT, long_haul_miles BIGINT, late_carriers BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/punctuality.csv', 'format' = 'csv');

INSERT INTO punctuality
SELECT window_end,
       COUNT(*) FILTER (WHERE dep_delay_min > 15),
       COUNT(*) FILTER (WHERE dep_delay_min < 0),
       SUM(distance_mi) FILTER (WHERE distance_mi > 2000),
       COUNT(DISTINCT carrier) FILTER (WHERE dep_delay_min > 15)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end
HAVING COUNT(*) >= 10;
