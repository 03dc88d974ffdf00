-- Orders from one topic, what each user spent in every ten seconds into another.
-- Needs a broker: scripts/kafka.sh start; scripts/kafka.sh topic --create --topic orders --partitions 2, and so spending
-- laxity run examples/kafka.sql

SET 'pipeline.name' = 'made-up orders';
SET 'laxity.latency.target' = '1 s';

CREATE TABLE made_up (id BIGINT, user_id INT, amount INT, ordered_at TIMESTAMP_LTZ(3))
WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.user_id.min' = '1', 'fields.user_id.max' = '50',
      'fields.amount.min' = '1', 'fields.amount.max' = '100');

CREATE TABLE orders (
  id BIGINT, user_id INT, amount INT, ordered_at TIMESTAMP_LTZ(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = '127.0.0.1:19092',
  'scan.startup.mode' = 'latest-offset',
  'scan.watermark.idle-timeout' = '5 s',
  'key.format' = 'raw', 'key.fields' = 'user_id',
  'value.format' = 'json'
);

CREATE TABLE spending (window_end TIMESTAMP(3), user_id INT, spent BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'spending', 'properties.bootstrap.servers' = '127.0.0.1:19092', 'format' = 'json');

INSERT INTO orders SELECT id, user_id, amount, ordered_at FROM made_up;

SET 'pipeline.name' = 'spending';
SET 'laxity.latency.target' = '200 ms';

INSERT INTO spending
SELECT window_end, user_id, SUM(amount) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, user_id;
