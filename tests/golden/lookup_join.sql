-- The airline's name beside its code: of late departures, whether the name is known or not, and of the day's hours.

CREATE TABLE flights (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3), carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  proctime AS PROCTIME(),
  WATERMARK FOR event_ts AS event_ts - INTERVAL '3' HOUR
) WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE airlines (
  carrier STRING, name STRING, since INT, label AS carrier || ': ' || name
) WITH ('connector' = 'filesystem', 'path' = 'data/airlines.csv', 'format' = 'csv', 'csv.header' = 'true',
        'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 min');
CREATE TABLE delayed (flight INT, carrier STRING, name STRING, since INT)
WITH ('connector' = 'filesystem', 'path' = 'out/delayed.csv', 'format' = 'csv');
CREATE TABLE hours (window_end TIMESTAMP(3), airline STRING, departures BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/hours.csv', 'format' = 'csv');

EXECUTE STATEMENT SET BEGIN
INSERT INTO delayed
SELECT f.flight, f.carrier, a.name, a.since
FROM flights AS f
LEFT JOIN airlines FOR SYSTEM_TIME AS OF f.proctime AS a
ON f.carrier = a.carrier AND a.since < 2000 AND f.distance_mi > a.since - 1200
WHERE f.dep_delay_min > 30;
INSERT INTO hours
SELECT window_end, label, COUNT(*)
FROM TABLE(TUMBLE((
  SELECT f.event_ts, a.label FROM flights AS f
  JOIN airlines FOR SYSTEM_TIME AS OF f.proctime AS a ON f.carrier = a.carrier
), DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, label;
END;
