-- Each person's first click in every two minutes.

CREATE TABLE clicks (
  clicked_at TIMESTAMP(3), who STRING, page STRING,
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL '3' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE first_clicks (window_end TIMESTAMP(3), who STRING, clicked_at TIMESTAMP(3), page STRING)
WITH ('connector' = 'filesystem', 'path' = 'out/first_clicks.csv', 'format' = 'csv');

INSERT INTO first_clicks
SELECT window_end, who, clicked_at, page
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, who ORDER BY clicked_at ASC) AS n
  FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(clicked_at), INTERVAL '2' MINUTE))
)
WHERE n = 1;
