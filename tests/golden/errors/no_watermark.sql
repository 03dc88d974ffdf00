CREATE TABLE clicks (
  clicked_at TIMESTAMP(3), who STRING, page STRING
) WITH ('connector' = 'filesystem', 'path' = '../data/clicks.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE pages (page STRING, clicks BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO pages
SELECT page, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(clicked_at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, page;
