-- A folder for each airport and for late and punctual flights: PARTITIONED BY. The airport that is not known has one too.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE TABLE by_airport (origin STRING, flight INT, late BOOLEAN, delay INT) PARTITIONED BY (late, origin)
WITH ('connector' = 'filesystem', 'path' = 'out/by_airport', 'format' = 'csv');

INSERT INTO by_airport
SELECT NULLIF(origin, 'LGA'), flight, dep_delay_min > 15, dep_delay_min FROM flights WHERE carrier IN ('AA', 'B6');
