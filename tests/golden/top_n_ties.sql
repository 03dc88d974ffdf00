-- The three worst delays of each hour, of equal ones those that left first: rows come in the order of departure, and
-- no column that is selected tells the order.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE worst (window_end TIMESTAMP(3), place BIGINT, dest STRING)
WITH ('connector' = 'filesystem', 'path' = 'out/worst.csv', 'format' = 'csv');

INSERT INTO worst
SELECT window_end, place, dest
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY dep_delay_min DESC) AS place
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
)
WHERE place <= 3;
