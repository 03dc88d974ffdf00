CREATE TABLE clicks (
  clicked_at TIMESTAMP(3), who STRING, page STRING,
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = '../data/clicks.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE pages (page STRING, clicks BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO pages
SELECT * FROM clicks MATCH_RECOGNIZE (PARTITION BY who ORDER BY clicked_at MEASURES A.page AS page, 1 AS clicks PATTERN (A B) DEFINE B AS B.page = 'paid');
