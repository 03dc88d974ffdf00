-- The three worst delays of each hour. Equal delays stand in the order of their flight numbers.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE worst (window_end TIMESTAMP(3), place BIGINT, carrier STRING, flight INT, dep_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = 'out/worst.csv', 'format' = 'csv');

INSERT INTO worst
SELECT window_end, place, carrier, flight, dep_delay_min
FROM (
  SELECT *, ROW_NUMBER() OVER (
           PARTITION BY window_start, window_end ORDER BY dep_delay_min DESC, flight ASC, carrier ASC) AS place
  FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
)
WHERE place <= 3;
