-- Nexmark 8, new users: people who came and put something up for auction within the same ten seconds.

CREATE TABLE nexmark_q8 (id BIGINT, name STRING, stime TIMESTAMP(3))
WITH ('connector' = 'blackhole');

INSERT INTO nexmark_q8
SELECT came.id, came.name, came.starttime
FROM (
  SELECT id, name, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end
) came
JOIN (
  SELECT seller, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end
) sold
ON came.id = sold.seller AND came.starttime = sold.starttime AND came.endtime = sold.endtime;
