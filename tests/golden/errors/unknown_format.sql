CREATE TABLE clicks (
  clicked_at TIMESTAMP(3), who STRING, page STRING,
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = '../data/clicks.csv', 'format' = 'orc', 'csv.header' = 'true');
CREATE TABLE pages (page STRING, clicks BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO pages SELECT page, 1 FROM clicks;
