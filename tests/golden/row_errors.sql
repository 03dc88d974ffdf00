-- Flights that left on time have no ratio of anything to their delay: a division by zero stops a query, as in Flink, or
-- here those rows alone are dead, in a projection and inside an aggregate.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE paces (flight INT, carrier STRING, pace INT)
WITH ('connector' = 'filesystem', 'path' = 'out/paces.csv', 'format' = 'csv');
CREATE TABLE hourly (window_end TIMESTAMP(3), origin STRING, departures BIGINT, pace INT)
WITH ('connector' = 'filesystem', 'path' = 'out/hourly.csv', 'format' = 'csv');

SET 'laxity.row.error' = 'dead-letter';

SET 'pipeline.name' = 'paces';
INSERT INTO paces SELECT flight, carrier, distance_mi / dep_delay_min FROM flights WHERE origin = 'JFK';

SET 'pipeline.name' = 'hourly';
INSERT INTO hourly
SELECT window_end, origin, COUNT(*), SUM(600 / dep_delay_min)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, origin;
