-- Different destinations, aircraft, airlines and distances in two hours; the last by sketches, exact for so few.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE variety (window_end TIMESTAMP(3), origin STRING, dests BIGINT, aircraft BIGINT, carriers BIGINT, flights BIGINT,
                      distances BIGINT, roughly BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/variety.csv', 'format' = 'csv');

INSERT INTO variety
SELECT window_end, origin, COUNT(DISTINCT dest), COUNT(DISTINCT tailnum), COUNT(DISTINCT carrier), COUNT(flight),
       APPROX_COUNT_DISTINCT(distance_mi), APPROX_COUNT_DISTINCT(distance_mi / 10.0E0)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '2' HOUR))
GROUP BY window_start, window_end, origin;
