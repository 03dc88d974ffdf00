-- Visits: clicks of one person no more than a minute apart. bob's click of 12:03:30 comes when his visit of
-- 12:02:45 has ended and opens another; that of 12:02:50 then still belongs to the new one, that of 12:02:20 to
-- none and is late.

CREATE TABLE clicks (
  clicked_at TIMESTAMP(3), who STRING, page STRING,
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE visits (who STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), clicks BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/visits.csv', 'format' = 'csv');

SET 'pipeline.name' = 'visits';
INSERT INTO visits
SELECT who, window_start, window_end, COUNT(*)
FROM TABLE(SESSION(TABLE clicks PARTITION BY who, DESCRIPTOR(clicked_at), INTERVAL '1' MINUTE))
GROUP BY who, window_start, window_end;
