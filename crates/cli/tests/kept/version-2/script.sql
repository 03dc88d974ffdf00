SET 'execution.checkpointing.interval' = '200 ms';
CREATE TABLE g (n BIGINT, k AS MOD(n, 3), ts AS TO_TIMESTAMP_LTZ(n * 100, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '299');
CREATE TABLE sums (k BIGINT, n BIGINT, s BIGINT, window_end TIMESTAMP_LTZ(3)) WITH ('connector' = 'filesystem', 'path' = 'out/${query}.csv', 'format' = 'csv');
SET 'pipeline.name' = 'tumbling';
INSERT INTO sums SELECT k, COUNT(*), SUM(n), window_end FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
SET 'pipeline.name' = 'hopping';
INSERT INTO sums SELECT 0, COUNT(*), SUM(n), window_end FROM TABLE(HOP(TABLE g, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
