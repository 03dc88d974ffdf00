-- Two tenants on one machine: a control tower that needs an answer within 50 ms, and a planning department
-- whose queries would keep any machine busy. make run, which adds the many small queries of boards.sql, then make run
-- POLICY=fifo and make run POLICY=os.
--
-- The data are real: every departure from New York in 2013. They are replayed at two million times their pace, or as fast
-- as the machine nearly bears (--pace 0.9): at two million times a day passes in 43 ms, the year in 16 s, and then it comes
-- again, until Ctrl-C or --for. Late flights and disorder stay as they were. Results go to out/, one file per query.

-- The tower sees New York.
CREATE TABLE departures (
  ingest_ts TIMESTAMP(3),                  -- when a flight left: the order and pace of the replay
  event_ts TIMESTAMP(3),                   -- when it should have left: event time
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '2' HOUR
) WITH (
  'connector' = 'filesystem', 'path' = 'data/departures.csv.gz', 'format' = 'csv', 'csv.header' = 'true',
  'laxity.replay.time-column' = 'ingest_ts', 'laxity.replay.speed' = '2000000', 'laxity.replay.loop' = 'forever'
);

-- Planning sees eighty cities of New York's size: each row eighty times, with airports and aircraft of its own.
CREATE TABLE network (
  ingest_ts TIMESTAMP(3), event_ts TIMESTAMP(3),
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT,
  WATERMARK FOR event_ts AS event_ts - INTERVAL '12' HOUR
) WITH (
  'connector' = 'filesystem', 'path' = 'data/departures.csv.gz', 'format' = 'csv', 'csv.header' = 'true',
  'laxity.replay.time-column' = 'ingest_ts', 'laxity.replay.speed' = '2000000', 'laxity.replay.loop' = 'forever',
  'laxity.replay.copies' = '80', 'laxity.replay.spread-keys' = 'tailnum,origin'
);

CREATE TABLE weather (
  observed_at TIMESTAMP(3), origin STRING, temp_f DOUBLE, humidity DOUBLE, wind_mph DOUBLE, gust_mph DOUBLE,
  precip_in DOUBLE, pressure_hpa DOUBLE, visibility_mi DOUBLE,
  WATERMARK FOR observed_at AS observed_at - INTERVAL '1' HOUR
) WITH (
  'connector' = 'filesystem', 'path' = 'data/weather.csv.gz', 'format' = 'csv', 'csv.header' = 'true',
  'csv.null-literal' = 'NA',
  'laxity.replay.time-column' = 'observed_at', 'laxity.replay.speed' = '2000000', 'laxity.replay.loop' = 'forever',
  'laxity.replay.copies' = '80', 'laxity.replay.spread-keys' = 'origin'
);

-- The tower: one small query in a hurry.

CREATE TABLE board (window_end TIMESTAMP(3), origin STRING, departures BIGINT, mean_delay_min INT, worst_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = '../out/board.csv', 'format' = 'csv');

SET 'pipeline.name' = 'tower board';
SET 'laxity.latency.target' = '50 ms';

INSERT INTO board
SELECT window_end, origin, COUNT(*), AVG(dep_delay_min), MAX(dep_delay_min)
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(event_ts), INTERVAL '6' HOUR))
GROUP BY window_start, window_end, origin;

-- Planning: six queries that are in no hurry, but want every core. Each runs in two parallel copies.

SET 'parallelism.default' = '2';

-- The last four weeks of each route, every day; routes that are an hour late on average.
CREATE TABLE bad_routes (window_end TIMESTAMP(3), origin STRING, dest STRING, departures BIGINT, mean_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = '../out/bad_routes.csv', 'format' = 'csv');

SET 'pipeline.name' = 'bad routes';
SET 'laxity.latency.target' = '20 s';

INSERT INTO bad_routes
SELECT window_end, origin, dest, COUNT(*), AVG(dep_delay_min)
FROM TABLE(HOP(TABLE network, DESCRIPTOR(event_ts), INTERVAL '1' DAY, INTERVAL '28' DAY))
GROUP BY window_start, window_end, origin, dest
HAVING AVG(dep_delay_min) > 60;

-- How many aircraft each airline has used in the last two weeks.
CREATE TABLE fleets (window_end TIMESTAMP(3), carrier STRING, aircraft BIGINT, airports BIGINT)
WITH ('connector' = 'filesystem', 'path' = '../out/fleets.csv', 'format' = 'csv');

SET 'pipeline.name' = 'fleets';
SET 'laxity.latency.target' = '30 s';

INSERT INTO fleets
SELECT window_end, carrier, COUNT(DISTINCT tailnum), COUNT(DISTINCT origin)
FROM TABLE(HOP(TABLE network, DESCRIPTOR(event_ts), INTERVAL '1' DAY, INTERVAL '14' DAY))
GROUP BY window_start, window_end, carrier;

-- Miles so far this month, told every day; airports with many of them.
CREATE TABLE miles_so_far (window_start TIMESTAMP(3), window_end TIMESTAMP(3), origin STRING, carrier STRING, miles BIGINT)
WITH ('connector' = 'filesystem', 'path' = '../out/miles_so_far.csv', 'format' = 'csv');

SET 'pipeline.name' = 'miles so far';
SET 'laxity.latency.target' = '30 s';

INSERT INTO miles_so_far
SELECT window_start, window_end, origin, carrier, SUM(distance_mi)
FROM TABLE(CUMULATE(TABLE network, DESCRIPTOR(event_ts), INTERVAL '1' DAY, INTERVAL '30' DAY))
GROUP BY window_start, window_end, origin, carrier
HAVING SUM(distance_mi) > 5000000;

-- Aircraft that come back and leave again within half a day, the second time much later than the first.
CREATE TABLE knock_on (tailnum STRING, event_ts TIMESTAMP(3), first_delay_min INT, second_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = '../out/knock_on.csv', 'format' = 'csv');

SET 'pipeline.name' = 'knock-on delays';
SET 'laxity.latency.target' = '10 s';

INSERT INTO knock_on
SELECT a.tailnum, b.event_ts, a.dep_delay_min, b.dep_delay_min
FROM network a, network b
WHERE a.tailnum = b.tailnum
  AND b.event_ts BETWEEN a.event_ts + INTERVAL '1' HOUR AND a.event_ts + INTERVAL '12' HOUR
  AND b.dep_delay_min > a.dep_delay_min + 240;

-- The five worst departures of each airport and day, if they were very bad.
CREATE TABLE worst (window_end TIMESTAMP(3), origin STRING, place BIGINT, carrier STRING, flight INT, dep_delay_min INT)
WITH ('connector' = 'filesystem', 'path' = '../out/worst.csv', 'format' = 'csv');

SET 'pipeline.name' = 'worst of the day';
SET 'laxity.latency.target' = '20 s';

INSERT INTO worst
SELECT window_end, origin, place, carrier, flight, dep_delay_min
FROM (
  SELECT *, ROW_NUMBER() OVER (
           PARTITION BY window_start, window_end, origin ORDER BY dep_delay_min DESC, flight ASC) AS place
  FROM TABLE(TUMBLE(TABLE network, DESCRIPTOR(event_ts), INTERVAL '1' DAY))
)
WHERE place <= 5 AND dep_delay_min > 600;

-- Departures beside the weather of their hour: storms that did not stop traffic.
CREATE TABLE storms (window_end TIMESTAMP(3), origin STRING, departures BIGINT, mean_delay_min INT, gust_mph DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '../out/storms.csv', 'format' = 'csv');

SET 'pipeline.name' = 'storms';
SET 'laxity.latency.target' = '15 s';

INSERT INTO storms
SELECT f.window_end, f.origin, f.departures, f.mean_delay_min, w.gust_mph
FROM (
  SELECT window_start, window_end, origin, COUNT(*) AS departures, AVG(dep_delay_min) AS mean_delay_min
  FROM TABLE(TUMBLE(TABLE network, DESCRIPTOR(event_ts), INTERVAL '1' HOUR))
  GROUP BY window_start, window_end, origin
) f
JOIN (
  SELECT * FROM TABLE(TUMBLE(TABLE weather, DESCRIPTOR(observed_at), INTERVAL '1' HOUR))
) w
ON f.window_start = w.window_start AND f.window_end = w.window_end AND f.origin = w.origin
WHERE w.gust_mph > 45;
