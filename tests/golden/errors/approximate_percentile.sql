-- At 1 a percentile is MAX, of which a sample knows nothing.
CREATE TABLE flights (carrier STRING, event_ts TIMESTAMP(3), dep_delay_min INT, WATERMARK FOR event_ts AS event_ts)
WITH ('connector' = 'filesystem', 'path' = 'data/flights.csv', 'format' = 'csv', 'csv.header' = 'true');
SET 'laxity.approximate.error' = '5%';
SELECT carrier, PERCENTILE(dep_delay_min, 1.0)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(event_ts), INTERVAL '2' HOUR))
GROUP BY window_start, window_end, carrier;
