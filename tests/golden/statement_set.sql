-- One statement with two sinks, both fed by the same table.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE by_origin (window_end TIMESTAMP(3), origin STRING, departures BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/by_origin.csv', 'format' = 'csv');
CREATE TABLE far (flight INT, dest STRING, distance_mi INT)
WITH ('connector' = 'filesystem', 'path' = 'out/far.csv', 'format' = 'csv');

EXECUTE STATEMENT SET BEGIN
INSERT INTO by_origin
SELECT window_end, origin, COUNT(*)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '3' HOUR))
GROUP BY window_start, window_end, origin;
INSERT INTO far
SELECT flight, dest, distance_mi FROM flights WHERE distance_mi > 2500;
END;
