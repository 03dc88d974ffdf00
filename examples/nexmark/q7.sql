-- Nexmark 7, highest bid: the highest bids of every ten seconds. Nexmark joins by window_end, which is no time attribute: the
-- join would keep every bid for ever. Joined by window_time it forgets.

CREATE TABLE nexmark_q7 (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), extra STRING)
WITH ('connector' = 'blackhole');

INSERT INTO nexmark_q7
SELECT b.auction, b.bidder, b.price, b.`dateTime`, b.extra
FROM bid b
JOIN (
  SELECT MAX(price) AS maxprice, window_time AS closed
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end, window_time
) highest
ON b.price = highest.maxprice
  AND b.`dateTime` BETWEEN highest.closed - INTERVAL '9.999' SECOND AND highest.closed;
