SET 'execution.checkpointing.interval' = '200 ms';
CREATE TABLE g (n BIGINT, k AS MOD(n / 20, 5), ts AS TO_TIMESTAMP_LTZ(n * 100, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '299');
CREATE TABLE found (k BIGINT, n BIGINT, s BIGINT, until TIMESTAMP_LTZ(3)) WITH ('connector' = 'filesystem', 'path' = 'out/${query}.csv', 'format' = 'csv');
SET 'pipeline.name' = 'sessions';
INSERT INTO found SELECT k, COUNT(*), SUM(n), window_end FROM TABLE(SESSION(TABLE g PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end;
SET 'pipeline.name' = 'frames';
INSERT INTO found SELECT k, COUNT(*) OVER w, SUM(n) OVER w, ts FROM g WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '12' SECOND PRECEDING AND CURRENT ROW);
SET 'pipeline.name' = 'best';
INSERT INTO found SELECT k, n, place, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY n DESC) AS place
FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE place <= 2;
