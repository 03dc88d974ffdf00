-- Departures more than half an hour late, but not from LaGuardia.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE delayed (carrier STRING, flight INT, route STRING, late_h DOUBLE)
WITH ('connector' = 'filesystem', 'path' = 'out/delayed.csv', 'format' = 'csv');

INSERT INTO delayed
SELECT carrier, flight, origin || '-' || dest, dep_delay_min / 60.0E0
FROM flights
WHERE dep_delay_min > 30 AND origin <> 'LGA';
