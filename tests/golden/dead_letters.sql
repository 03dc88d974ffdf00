-- Rows that cannot be read are put aside with their line and the reason; the good rows around them are not
-- lost.

CREATE TABLE readings (
  read_at TIMESTAMP(3), sensor STRING, reading INT
) WITH ('connector' = 'filesystem', 'path' = 'data/broken.csv', 'format' = 'csv', 'csv.header' = 'true',
        'laxity.dead-letter.path' = 'out/dead.jsonl');
CREATE TABLE good (read_at TIMESTAMP(3), sensor STRING, reading INT)
WITH ('connector' = 'filesystem', 'path' = 'out/good.csv', 'format' = 'csv');

SET 'pipeline.name' = 'readings';
INSERT INTO good SELECT read_at, sensor, reading FROM readings;
