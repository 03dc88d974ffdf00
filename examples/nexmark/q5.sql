-- Nexmark 5, hot items: every two seconds, the auctions with most bids in the last ten.

CREATE TABLE nexmark_q5 (auction BIGINT, num BIGINT)
WITH ('connector' = 'blackhole');

INSERT INTO nexmark_q5
SELECT counted.auction, counted.num
FROM (
  SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
) counted
JOIN (
  SELECT MAX(each_one.num) AS maxn, each_one.starttime, each_one.endtime
  FROM (
    SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
  ) each_one
  GROUP BY each_one.starttime, each_one.endtime
) most
ON counted.starttime = most.starttime AND counted.endtime = most.endtime AND counted.num >= most.maxn;
