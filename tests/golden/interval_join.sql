-- Aircraft that leave New York twice, two to eight hours apart.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE turnarounds (tailnum STRING, first_out INT, second_out INT, gap_min BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/turnarounds.csv', 'format' = 'csv');

INSERT INTO turnarounds
SELECT a.tailnum, a.flight, b.flight, CAST(TIMESTAMPDIFF(MINUTE, a.event_ts, b.event_ts) AS BIGINT)
FROM flights a, flights b
WHERE a.tailnum = b.tailnum
  AND b.event_ts BETWEEN a.event_ts + INTERVAL '2' HOUR AND a.event_ts + INTERVAL '8' HOUR;
